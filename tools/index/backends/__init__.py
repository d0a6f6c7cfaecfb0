"""Index backends, one file each."""
