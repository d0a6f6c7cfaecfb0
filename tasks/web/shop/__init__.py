"""Task families of the shop."""
