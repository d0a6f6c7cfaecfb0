"""Task families of the mail site."""
