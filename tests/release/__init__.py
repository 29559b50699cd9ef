"""What is handed out: the archives, the versions that they ask for, the time of an import."""
