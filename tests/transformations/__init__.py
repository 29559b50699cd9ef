"""The public functions under jit, vmap, export and meshes of devices."""
