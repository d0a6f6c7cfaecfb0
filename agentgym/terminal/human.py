"""The policy `human`: a person answers in the terminal and sees the same messages as a model."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

from agentgym.counts import count_of
from agentgym.engine.spaces import Action
from agentgym.errors import UsageError
from agentgym.messages import Message, with_call_ids
from agentgym.policy import Player
from agentgym.results.entry import Entry
from agentgym.seat import Seat
from agentgym.terminal.console import console as terminal
from agentgym.terminal.printing import plain, print_message
from agentgym.terminal.prompting import Prompter, Quit, line_reader

HUMAN = "human"
"""The name of the policy."""


class Stopped(UsageError):
    """The person stopped. The current episode is not recorded."""


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
        """Return the policy at this terminal. Raises `UsageError` if stdin or stdout is not a terminal."""
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise UsageError(f"the policy {HUMAN!r} needs a terminal for input and output; choose another")
        return cls(terminal(), line_reader())

    def player(self, seat: Seat) -> Player:
        """Return a player that shows the episode and prompts for its turns."""
        self._has_begun = True
        return _AtTerminal(seat, self.console, self._read)

    def ended(self, entry: Entry, done: int, of: int) -> None:
        """Print how an episode ended, if it was played now and not resumed (an `evaluation.OnProgress`)."""
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
            seat.tools,
            seat.dialect,
            console,
            read,
            leaving="give up this task; Ctrl-D stops the evaluation, which can be resumed",
        )
        self._is_new = True
        self._ids: set[str] = set()

    async def act(self, observation: list[Message]) -> Action | None:
        """Show new messages and prompt."""
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
            raise Stopped("stopped by the player") from None
        return with_call_ids(action, self._ids) if isinstance(action, Mapping) else action


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C interrupt reading a line: the handler of an event loop would let the read continue."""
    before: Any = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
