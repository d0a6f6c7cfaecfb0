"""Former place of names in `agentgym.terminal.console`; import them from there."""

from agentgym.terminal.console import console

__all__ = ["console"]
