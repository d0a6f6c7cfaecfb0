"""Task sources: generators and loaders. Data, not behaviour."""
