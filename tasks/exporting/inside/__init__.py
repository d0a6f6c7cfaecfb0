"""Code that runs in the container that judges an exported task."""
