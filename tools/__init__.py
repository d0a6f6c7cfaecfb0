"""Building blocks for tools: databases, sandboxes, indexes and browsers. No rewards, tasks or models."""
