"""Task families of the admin site."""
