"""Families of questions about databases."""
