"""A mail client with folders, filters and contacts."""
