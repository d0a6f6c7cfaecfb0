"""`agentgym doctor`: reports which resources of this machine agentgym can use."""
