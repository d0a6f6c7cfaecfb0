"""The search environment."""
