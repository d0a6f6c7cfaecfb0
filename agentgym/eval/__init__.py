"""Evaluates policies, keeps results, and compares them."""
