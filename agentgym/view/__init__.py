"""Looking at trajectories: a page served on this machine, the same page as one file, and a view for terminals."""
