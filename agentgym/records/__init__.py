"""Writing trajectories to files, reading them back and replaying them."""
