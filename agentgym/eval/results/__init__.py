"""Results on disk: trajectories, which are written once, annotations added later, and folders of evaluations."""
