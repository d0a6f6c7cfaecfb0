"""Environments and what they exchange: messages, tools, tasks, rewards, policies, trajectories."""
