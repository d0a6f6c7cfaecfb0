"""What a person is shown and asked in the terminal, in `agentgym play` and as the policy `human`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agentgym.commands.typed import read_action, typed_usage
from agentgym.dialects.base import Dialect
from agentgym.engine.spaces import Action
from agentgym.errors import ToolError
from agentgym.messages import Message, text_of
from agentgym.terminal.printing import plain, print_message
from agentgym.toolset import Toolset

PROMPT = "> "
MORE = "… "

_HELP = """Type the name of a tool and its arguments: a tool with one argument takes the rest of the line as it is,
others take key=value pairs or a JSON object. A line that ends with \\ goes on.

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
        dialect: How calls can be written besides.
        console: The console to print to.
        read: Returns the next line, given a prompt; raises `EOFError` at the end.
        talks: Whether the environment takes text that calls no tool.
        commands: What more can be typed after a colon, with its explanation and what it does.
        leaving: What ends the episode, explained.
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
        """Prompt until there is an action to send. Raises `Quit`, and what `read` raises."""
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
        """Run a command that starts with a colon; return an action if it yields one."""
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
            **{one: run for one, (_, run) in self._more.items()},
        }
        if name not in commands:
            raise ToolError(f"There is no {name!r}. There are: {', '.join(commands)}, :say, :quit.")
        commands[name]()
        return None

    def _show_help(self) -> None:
        more = {name: what for name, (what, _) in self._more.items()}
        more |= {":say TEXT": "send a text exactly as a model would", ":quit": self._leaving}
        self._console.print(Text(_HELP + "\n".join(f"  {name:<11} {what}" for name, what in more.items())))

    def _show_task(self) -> None:
        told = "\n".join(text_of(message) for message in self._opening if message.get("role") != "system")
        footer = Text(self._footer, style="dim")
        panel = Panel(Text(plain(told, None)), title=self._title, title_align="left", subtitle=footer, padding=(1, 2))
        panel.subtitle_align = "right"
        self._console.print(panel)

    def _show_system(self) -> None:
        told = [message for message in self._opening if message.get("role") == "system"]
        for message in told:
            print_message(message, self._console, max_chars=None)
        if not told:
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
