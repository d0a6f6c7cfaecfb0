"""The web environments."""
