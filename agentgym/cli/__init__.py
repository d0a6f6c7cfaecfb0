"""The command line. Nothing else imports it."""

from __future__ import annotations


def main() -> None:
    """Run the command `agentgym`."""
    from agentgym.cli.app import main

    main()
