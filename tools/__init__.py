"""What tools are made of: databases now; sandboxes, indexes and browsers later. No rewards, no tasks, no models."""
