"""Task families of the calendar site."""
