"""Questions whose answers are found by searching."""
