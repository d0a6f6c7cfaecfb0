"""Results on disk: trajectories that are written once, what is learned about them later, and folders of evaluations."""
