"""Environments and policies over the network."""
