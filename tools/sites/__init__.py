"""Small web sites with a state of their own per episode, served over real HTTP."""
