"""The environment engine: the authoring interface, steps, spaces, event loops and pools."""
