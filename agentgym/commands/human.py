"""The policy `human`: a person answers in the terminal, and sees what a model would see."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

from agentgym.commands.prompting import Prompter, Quit, line_reader
from agentgym.counts import count_of
from agentgym.engine.spaces import Action
from agentgym.errors import UsageError
from agentgym.messages import Message, with_call_ids
from agentgym.policy import Player
from agentgym.results.entry import Entry
from agentgym.seat import Seat
from agentgym.terminal.printing import console as terminal
from agentgym.terminal.printing import plain, print_message

HUMAN = "human"
"""The name of the policy."""


class Stopped(UsageError):
    """The person stops here. The episode that was being played is not recorded."""


class HumanPolicy:
    """Asks a person for each turn. It must be awaited on the main thread, where Ctrl-C arrives.

    Args:
        console: The console to print to.
        read: Returns the next line, given a prompt; raises `EOFError` at the end.
    """

    name = HUMAN

    def __init__(self, console: Console | None = None, read: Callable[[str], str] = input):
        self.console, self._read = console or Console(), read
        self._has_begun = False

    @classmethod
    def at_terminal(cls) -> HumanPolicy:
        """Return the policy at this terminal. Raises `UsageError` if there is none."""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError(f"the policy {HUMAN!r} asks in the terminal, but input or output is none; choose another")
        return cls(terminal(), line_reader())

    def player(self, seat: Seat) -> Player:
        """Return a player that shows the episode and prompts for its turns."""
        self._has_begun = True
        return _AtTerminal(seat, self.console, self._read)

    def ended(self, entry: Entry, done: int, of: int) -> None:
        """Tell how an episode ended; nothing of those that were played earlier (`evaluation.OnProgress`)."""
        if not self._has_begun:
            return
        self._has_begun = False
        word, style = ("Solved", "bold green") if entry.success else ("Not solved", "bold red")
        if entry.failed:
            word, style = "Failed", "bold yellow"
        turns = count_of(entry.turns, "turn")
        why = f"  {entry.reason} after {turns}, reward {entry.reward:.4g}".replace("_", " ")
        error = f": {plain(entry.error)}" if entry.error else ""
        self.console.print(Text.assemble((word, style), why, error, (f"  ({done} of {of})", "dim")))


class _AtTerminal:
    """One episode."""

    def __init__(self, seat: Seat, console: Console, read: Callable[[str], str]):
        self._console = console
        self._prompter = Prompter(
            seat.tools, seat.dialect, console, read, leaving="give up this task; Ctrl-D stops here, to go on later"
        )
        self._is_new = True
        self._ids: set[str] = set()

    async def act(self, observation: list[Message]) -> Action | None:
        """Show what is new and prompt."""
        if self._is_new:
            self._prompter.welcome(observation, Text("Task", style="bold"), "")
            self._is_new = False
        else:
            for message in observation:
                print_message(message, self._console, max_chars=None)
        try:
            with _interruptible():
                action = self._prompter.action()
        except Quit:
            return None
        except (EOFError, KeyboardInterrupt):
            raise Stopped("stopped by the person who played") from None
        return with_call_ids(action, self._ids) if isinstance(action, Mapping) else action


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt what waits for a line: an event loop only notes it, and would wait for the line."""
    before: Any = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
