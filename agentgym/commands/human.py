"""Former place of names in `agentgym.terminal.human`; import them from there."""

from agentgym.terminal.human import HumanPolicy

__all__ = ["HumanPolicy"]
