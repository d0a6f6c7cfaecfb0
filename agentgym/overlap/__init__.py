"""Texts compared with each other: duplicates, near-duplicates, and what a text set shares with tasks."""
