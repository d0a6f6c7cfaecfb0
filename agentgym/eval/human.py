"""The policy `human`: a person answers in the terminal and sees the same messages as a model."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agentgym.base.choices import count_of
from agentgym.base.console import console as terminal
from agentgym.base.errors import ToolError, UsageError
from agentgym.core.dialects.base import Dialect
from agentgym.core.display import plain, print_message
from agentgym.core.engine.spaces import Action
from agentgym.core.messages import Message, ToolCall, assistant, text_of, with_call_ids
from agentgym.core.policy import Player, Seat
from agentgym.core.toolset import Tool, Toolset
from agentgym.eval.results.entry import Entry


def read_action(line: str, tools: Toolset, dialect: Dialect, *, talks: bool = False) -> Action:
    """Return the action for a typed line: a tool and its arguments, a call in the dialect, or plain text.

    Args:
        line: The typed line.
        tools: The tools that can be called.
        dialect: Another accepted syntax for calls.
        talks: Whether text without a tool call is an action, too.

    Raises:
        ToolError: The line cannot be read; it costs no turn.
    """
    name, *rest = line.split(maxsplit=1)
    if name in tools:
        tool = tools.get(name)
        call = ToolCall(name, read_arguments(tool, "".join(rest)))
        tool.check(call.arguments)
        return assistant("", [call])
    if talks or not len(tools):
        return line
    parsed = dialect.parse(line, tools)
    if parsed.error is not None:
        raise ToolError(parsed.error)
    for call in parsed.calls or (ToolCall(name),):
        tools.check(call)
    return line


def read_arguments(tool: Tool, text: str) -> dict[str, Any]:
    """Return the arguments typed after a tool's name. Raises `ToolError` with the usage."""
    properties = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", [])
    arguments = _json_object(text)
    if arguments is not None and set(arguments) <= set(properties):
        return arguments
    if not text:
        return {}
    taker = required[0] if len(required) == 1 else next(iter(properties)) if len(properties) == 1 else None
    pairs = _pairs(text, properties)
    if pairs is not None and (taker is None or taker in pairs):
        return {name: _value(value, properties[name]) for name, value in pairs.items()}
    if taker is not None:
        return {taker: _value(text, properties[taker])}
    example = " ".join(f"{name}=…" for name in properties)
    expected = f"Write {tool.name} {example}, or a JSON object." if properties else f"{tool.name} takes no arguments."
    raise ToolError(f"{expected} Usage: {tool.usage}")


def _json_object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _pairs(text: str, properties: Mapping[str, Any]) -> dict[str, str] | None:
    """Return `key=value` pairs, or `None` if the text has another form."""
    try:
        split = [part.partition("=") for part in shlex.split(text)]
    except ValueError:
        return None
    if not all(sign and key in properties for key, sign, _ in split):
        return None
    return {key: value for key, _, value in split}


def _value(text: str, schema: Mapping[str, Any]) -> Any:
    """Return typed text as an argument: strings unchanged, other types parsed as JSON if possible."""
    if schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def typed_usage(tool: Tool) -> str:
    """Return the usage of a tool in typed form."""
    properties = tool.parameters.get("properties", {})
    required = set(tool.parameters.get("required", ()))
    if len(properties) == 1:
        (name,) = properties
        return f"{tool.name} {name.upper() if name in required else f'[{name.upper()}]'}"
    words = [f"{name}=…" if name in required else f"[{name}=…]" for name in properties]
    return " ".join([tool.name, *words])


def as_typed(move: ToolCall | str, tools: Toolset) -> str:
    """Return a move of the solution as a person would type it."""
    if isinstance(move, str):
        return plain(move)
    values = list(move.arguments.values())
    if len(values) == 1 and len(tools.get(move.name).parameters.get("required", ())) == 1:
        return plain(f"{move.name} {values[0] if isinstance(values[0], str) else json.dumps(values[0])}")
    return plain(f"{move.name} {json.dumps(dict(move.arguments), ensure_ascii=False)}" if values else move.name)


PROMPT = "> "
MORE = "… "

_HELP = """Type the name of a tool and its arguments: a tool with one argument takes the rest of the line,
others take key=value pairs or a JSON object. End a line with \\ to continue it.

  :tools      show the tools and their arguments
  :task       show the task again
  :system     show the system message that a model gets
"""


class Quit(Exception):
    """The player gives up."""


class Prompter:
    """Prompts for the turns of one episode.

    Args:
        tools: The tools that can be called.
        dialect: Another accepted syntax for calls.
        console: The console to print to.
        read: Returns the next line, given a prompt; raises `EOFError` at the end.
        talks: Whether the environment accepts text without a tool call.
        commands: Additional commands, such as `:solution`, each with an explanation and a function.
        leaving: Explanation of `:quit`.
    """

    def __init__(
        self,
        tools: Toolset,
        dialect: Dialect,
        console: Console,
        read: Callable[[str], str],
        *,
        talks: bool = False,
        commands: Mapping[str, tuple[str, Callable[[], object]]] | None = None,
        leaving: str,
    ):
        self._tools, self._dialect, self._talks = tools, dialect, talks
        self._console, self._read = console, read
        self._more, self._leaving = dict(commands or {}), leaving
        self._opening: Sequence[Message] = ()
        self._title, self._footer = Text(), ""

    def welcome(self, opening: Sequence[Message], title: Text, footer: str) -> None:
        """Show the task and the tools."""
        self._opening, self._title, self._footer = opening, title, footer
        self._show_task()
        self._show_tools()
        self._console.print(Text("Type :help for help.", style="dim"))

    def action(self) -> Action:
        """Prompt until an action is typed. Raises `Quit`, and exceptions of `read`."""
        while True:
            line = self._line()
            if not line:
                continue
            try:
                action = self._command(line) if line.startswith(":") else self._action(line)
            except ToolError as mistake:
                self._console.print(Text(plain(str(mistake)), style="red"))
                continue
            if action is not None:
                return action

    def _action(self, line: str) -> Action:
        return read_action(line, self._tools, self._dialect, talks=self._talks)

    def _line(self) -> str:
        line = self._read(PROMPT)
        while line.endswith("\\"):
            line = line[:-1] + "\n" + self._read(MORE)
        return line.strip()

    def _command(self, line: str) -> Action | None:
        """Run a command that starts with a colon; return its action, if any."""
        name, _, rest = line.partition(" ")
        if name == ":say":
            return rest
        if name in (":quit", ":q"):
            raise Quit
        commands: dict[str, Callable[[], object]] = {
            ":help": self._show_help,
            ":tools": self._show_tools,
            ":task": self._show_task,
            ":system": self._show_system,
            **{command: run for command, (_, run) in self._more.items()},
        }
        if name not in commands:
            raise ToolError(f"Unknown command {name!r}. Commands: {', '.join(commands)}, :say, :quit.")
        commands[name]()
        return None

    def _show_help(self) -> None:
        more = {name: what for name, (what, _) in self._more.items()}
        more |= {":say TEXT": "send text exactly as a model would", ":quit": self._leaving}
        self._console.print(Text(_HELP + "\n".join(f"  {name:<11} {what}" for name, what in more.items())))

    def _show_task(self) -> None:
        text = "\n".join(text_of(message) for message in self._opening if message.get("role") != "system")
        footer = Text(self._footer, style="dim")
        panel = Panel(Text(plain(text, None)), title=self._title, title_align="left", subtitle=footer, padding=(1, 2))
        panel.subtitle_align = "right"
        self._console.print(panel)

    def _show_system(self) -> None:
        messages = [message for message in self._opening if message.get("role") == "system"]
        for message in messages:
            print_message(message, self._console, max_chars=None)
        if not messages:
            self._console.print(Text("There is no system message.", style="dim"))

    def _show_tools(self) -> None:
        if not len(self._tools):
            self._console.print(Text("There are no tools: each line is sent as text.", style="dim"))
            return
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
        table.add_column(style="bold yellow", no_wrap=True)
        table.add_column()
        for tool in self._tools:
            table.add_row(Text(typed_usage(tool)), Text(tool.description.partition("\n\n")[0]))
        self._console.print(table)


def line_reader() -> Callable[[str], str]:
    """Return `input`, with line editing and history where the platform supports them."""
    with suppress(ImportError):
        import readline  # noqa: F401
    return input


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
