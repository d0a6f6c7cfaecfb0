"""Sandboxes in Docker containers: connection, ownership, hardening, the stream to the agent inside, images."""
