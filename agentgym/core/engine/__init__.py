"""Plays episodes: the machinery under `Env`."""
