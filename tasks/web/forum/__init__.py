"""Task families of the forum."""
