"""Estimates memory and time of a training from the shape of its model, with formulas only; needs neither torch nor TRL."""
