"""A real browser for environments: one context per episode, everything bounded in time and size."""
