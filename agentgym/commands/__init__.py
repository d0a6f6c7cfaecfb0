"""The commands: each is a function that the command line calls with the parsed arguments."""
