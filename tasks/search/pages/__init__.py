"""The pages written about the things in the world."""
