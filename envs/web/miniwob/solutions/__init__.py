"""Scripted players of MiniWoB++ pages."""
