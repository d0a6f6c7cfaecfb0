"""Former place of names in `agentgym.terminal.printing`; import them from there."""

from agentgym.terminal.printing import calls_text, duration, ending_line, plain, print_trajectory

__all__ = ["calls_text", "duration", "ending_line", "plain", "print_trajectory"]
