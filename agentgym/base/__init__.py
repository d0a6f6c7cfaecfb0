"""What everything else stands on: errors, settings, files, terminal output. Imports nothing else of agentgym."""
