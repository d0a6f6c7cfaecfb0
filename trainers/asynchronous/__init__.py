"""Asynchronous training: a process plays episodes while the trainer learns from those that have finished."""
