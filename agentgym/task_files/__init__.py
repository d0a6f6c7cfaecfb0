"""Task files: their declaration by environments, and the entries that are excluded."""
