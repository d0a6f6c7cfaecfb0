"""Former place of names in `agentgym.terminal.signals`; import them from there."""

from agentgym.terminal.signals import end_process

__all__ = ["end_process"]
