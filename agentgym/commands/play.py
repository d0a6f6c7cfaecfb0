"""`agentgym play`: a person plays an environment in the terminal, with the same tools, turns and rewards as a model.

A typing mistake (unknown tool, wrong arguments) is explained and costs no turn. `:say` sends a text unchanged, to see
the reply that a model would get.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from agentgym.commands.show import plain, print_message, rewards_text
from agentgym.commands.typed import as_typed, read_action, typed_usage
from agentgym.endings import Reason
from agentgym.engine.spaces import Action
from agentgym.engine.steps import StepResult, reset_options
from agentgym.env import Env
from agentgym.errors import AgentGymError, ToolError
from agentgym.messages import text_of
from agentgym.script import Script, written

PROMPT = "> "
MORE = "… "

HELP = """Type the name of a tool and its arguments: a tool with one argument takes the rest of the line as it is,
others take key=value pairs or a JSON object. A line that ends with \\ goes on.

  :tools      show the tools and their arguments
  :task       show the task again
  :system     show the system message that a model gets
  :solution   show the environment's own solution
  :say TEXT   send a text exactly as a model would
  :quit       give up (so does Ctrl-D)"""


class _Quit(Exception):
    """The player gives up."""


@dataclass
class _Score:
    """Rewards of the episode so far."""

    turns: list[dict[str, float]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)

    def add(self, result: StepResult) -> None:
        self.turns.append(result.info["rewards"])
        self.rewards.append(result.reward)


class Session:
    """One episode played by a person.

    Args:
        make: Makes the environment; a second one is made to show the solution.
        seed: Chooses the task, unless `options` names one.
        options: `task`, or `split` and `index`, as for `Env.reset`.
        console: The console to print to.
        read: Returns the next line, given a prompt; raises `EOFError` at the end.
    """

    def __init__(
        self,
        make: Callable[[], Env],
        *,
        seed: int | None = None,
        options: Mapping[str, Any] | None = None,
        console: Console | None = None,
        read: Callable[[str], str] = input,
    ):
        self._make, self._seed, self._options = make, seed, dict(options or {})
        self._console = console or Console()
        self._read = read
        self._score = _Score()
        self._played = 0

    def play(self) -> bool:
        """Play to the end; return whether the task was solved."""
        self._env = self._make()
        try:
            self._opening, _ = self._env.reset(seed=self._seed, options=self._options)
            self._welcome()
            return self._turns()
        finally:
            self._env.close()

    def _turns(self) -> bool:
        try:
            while True:
                action = self._next_action()
                result = self._env.step(action)
                self._score.add(result)
                self._played += 1
                for message in result.observation:
                    print_message(message, self._console, max_chars=None)
                self._console.print(self._standing(result))
                if result.terminated or result.truncated:
                    break
        except (_Quit, EOFError, KeyboardInterrupt):
            self._console.print()
            result = self._env.interrupt(Reason.GAVE_UP)
            self._score.add(result)
        self._farewell(result)
        return bool(result.info["is_success"])

    def _next_action(self) -> Action:
        """Prompt until there is an action to send."""
        while True:
            line = self._line()
            if not line:
                continue
            try:
                action = self._command(line) if line.startswith(":") else read_action(line, self._env)
            except ToolError as mistake:
                self._console.print(Text(plain(str(mistake)), style="red"))
                continue
            if action is not None:
                return action

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
            raise _Quit
        commands = {
            ":help": lambda: self._console.print(Text(HELP)),
            ":tools": self._show_tools,
            ":task": self._show_task,
            ":system": self._show_system,
            ":solution": self._show_solution,
        }
        if name not in commands:
            raise ToolError(f"There is no {name!r}. There are: {', '.join(commands)}, :say, :quit.")
        commands[name]()
        return None

    def _welcome(self) -> None:
        self._show_task()
        self._show_tools()
        self._console.print(Text("Type :help for help.", style="dim"))

    def _show_task(self) -> None:
        task = self._env.task
        title = Text.assemble((plain(task.id, 100), "bold"), f"  difficulty {task.difficulty}")
        told = "\n".join(text_of(message) for message in self._opening if message.get("role") != "system")
        footer = Text(f"{self._env.max_turns} turns", style="dim")
        panel = Panel(Text(plain(told, None)), title=title, title_align="left", subtitle=footer, padding=(1, 2))
        panel.subtitle_align = "right"
        self._console.print(panel)

    def _show_system(self) -> None:
        told = [message for message in self._opening if message.get("role") == "system"]
        for message in told:
            print_message(message, self._console, max_chars=None)
        if not told:
            self._console.print(Text("There is no system message.", style="dim"))

    def _show_tools(self) -> None:
        if not len(self._env.tools):
            self._console.print(Text("There are no tools: each line is sent as text.", style="dim"))
            return
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
        table.add_column(style="bold yellow", no_wrap=True)
        table.add_column()
        for tool in self._env.tools:
            table.add_row(Text(typed_usage(tool)), Text(tool.description.partition("\n\n")[0]))
        self._console.print(table)

    def _show_solution(self) -> None:
        """Play the reference solution in a separate environment."""
        env = self._make()
        try:
            env.reset(seed=self._seed, options=reset_options(self._env.task, self._env.training_step))
            script, observation = Script(env.solution(env.task)), []
            while env.reason is None and (move := script.next_move(observation)) is not None:
                self._console.print(Text(f"{PROMPT}{as_typed(move, env.tools)}", style="bold green"))
                observation = env.step(written(env, move)).observation
                shown = "\n".join(text_of(message) for message in observation)
                self._console.print(Text(plain(shown), style="dim"))
        except AgentGymError as error:
            self._console.print(Text(plain(str(error)), style="red"))
        finally:
            env.close()

    def _standing(self, result: StepResult) -> Text:
        turn = Text(f"turn {self._played} of {self._env.max_turns}  ", style="dim")
        return turn + rewards_text(result.info["rewards"], result.reward)

    def _farewell(self, result: StepResult) -> None:
        solved = bool(result.info["is_success"])
        title = Text("Solved" if solved else "Not solved", style="bold green" if solved else "bold red")
        table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
        table.add_column("channel")
        table.add_column("total", justify="right")
        table.add_column("weight", justify="right")
        table.add_column("")
        weights = self._env.scheme.weights
        for name, channel in self._env.channels.items():
            total = sum(turn.get(name, 0.0) for turn in self._score.turns)
            weight = f"{weights[name]:g}" if name in weights else "–"
            table.add_row(name, f"{total:.4g}", weight, Text(channel.description, style="dim"))
        table.add_section()
        ending = f"{result.info['ending']} after {self._played} turns".replace("_", " ")
        table.add_row("reward", f"{sum(self._score.rewards):.4g}", "", Text(ending, style="dim"), style="bold")
        self._console.print(Panel(table, title=title, title_align="left", expand=False, padding=(1, 2)))


def line_reader() -> Callable[[str], str]:
    """Return `input`, with line editing and history where the platform supports them."""
    with suppress(ImportError):
        import readline  # noqa: F401
    return input
