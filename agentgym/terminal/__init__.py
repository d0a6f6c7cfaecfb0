"""What programs at a terminal share: consoles, printed trajectories, prompts, signals, and options of commands."""
