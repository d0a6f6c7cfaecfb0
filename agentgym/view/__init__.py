"""Views of trajectories: a page served locally, the same page as one file, and a terminal view."""
