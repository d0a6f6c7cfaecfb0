"""Building the world: places, people, organisations, works and events."""
