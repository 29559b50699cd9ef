"""Arrays that are sharded over devices."""
