"""Task files: how environments declare them, and which of their entries are left out."""
