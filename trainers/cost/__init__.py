"""Estimates memory and time of a training from the shape of its model, with formulas only; imports no torch."""
