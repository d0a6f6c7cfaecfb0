"""Families of questions about the world."""
