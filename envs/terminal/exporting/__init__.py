"""Tasks of other environments, written as Harbor task folders."""
