"""The base of every other package: errors, settings, files, terminal output. Imports nothing else of agentgym."""
