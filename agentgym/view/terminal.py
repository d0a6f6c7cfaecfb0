"""The terminal view: lists, filters, single trajectories and groups, by short commands.

Text from models and tools is printed literally, without characters that would control the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentgym.base.choices import count_of
from agentgym.base.console import console as terminal
from agentgym.base.errors import AgentGymError, UsageError
from agentgym.core.display import calls_text, duration, ending_line, plain, print_gold, print_trajectory
from agentgym.core.trajectory import Trajectory
from agentgym.view.collection import FILTERS, Collection, Row, TextSearch, matching, ordered
from agentgym.view.environments import Environments, Unknown

PAGE = 20
_BAR = 40
"""Width in characters of the bar for an episode's time."""
HELP = """\
  NUMBER          open the trajectory with this number      l   list
  n, p            next, previous trajectory                 >, <  next, previous page
  g               all attempts at this task                 c   gates and credit of this trajectory
  NAME=VALUE      filter by {filters}
  sort=COLUMN     sort, -COLUMN for descending              /TEXT   search in all contents
  x               clear filters                             w   where its time went
  h               this help                                 q   quit"""


def browse(
    collection: Collection, read: Callable[[str], str] = input, console: Console | None = None, *, trust: bool = False
) -> None:
    """Show trajectories until the user quits.

    Args:
        collection: The trajectories to show.
        read: Asks the user for a command; raises `EOFError` at the end of input.
        console: The console to print to; by default the terminal.
        trust: Accept any class and any argument of an environment from the recordings, to read its scheme and tasks.
    """
    browser = Browser(collection, console or terminal(), Environments(trust=trust))
    browser.run("l")
    while True:
        try:
            line = read("> ").strip()
        except EOFError:
            return
        if line == "q":
            return
        try:
            browser.run(line)
        except AgentGymError as error:
            browser.console.print(Text(plain(str(error), 500), style="red"))


class Browser:
    """The state of a terminal view: filters, page and open trajectory.

    Args:
        collection: The trajectories to show.
        console: The console to print to.
        environments: The environments of the recordings.
    """

    def __init__(self, collection: Collection, console: Console, environments: Environments):
        self.console = console
        self._collection = collection
        self._search, self._environments = TextSearch(collection), environments
        self._choices: dict[str, str] = {}
        self._start = 0
        self._open: int | None = None
        self._commands: Mapping[str, Callable[[], None]] = {
            "": self._next_page,
            "l": self._list,
            ">": self._next_page,
            "<": lambda: self._page(self._start - PAGE),
            "n": lambda: self._show(0 if self._open is None else self._open + 1),
            "p": lambda: self._show(0 if self._open is None else self._open - 1),
            "g": self._group,
            "c": self._credit,
            "w": self._times,
            "x": lambda: self._choose({}),
            "h": lambda: self.console.print(HELP.format(filters=", ".join(FILTERS)), markup=False),
        }

    def run(self, line: str) -> None:
        """Run one command. Raises `UsageError` if it is unknown."""
        self._collection.refresh()
        name, sign, value = line.partition("=")
        if line in self._commands:
            self._commands[line]()
        elif line.startswith("/"):
            self._choose({**self._choices, "q": line[1:].strip()})
        elif line.isdecimal():
            self._show(int(line))
        elif sign and name.strip() in (*FILTERS, "sort"):
            self._choose({**self._choices, name.strip(): value.strip()})
        else:
            raise UsageError(f"{line[:50]!r} is not a command; h lists them")

    def _rows(self) -> Sequence[Row]:
        text = self._choices.get("q", "")
        rows = matching(self._collection.rows, self._choices, self._search.find(text) if text else None)
        return ordered(rows, self._choices.get("sort", ""))

    def _choose(self, choices: Mapping[str, str]) -> None:
        before, self._choices = self._choices, {name: value for name, value in choices.items() if value}
        try:
            self._rows()
        except UsageError:
            self._choices = before
            raise
        self._start, self._open = 0, None
        self._list()

    def _next_page(self) -> None:
        self._page(self._start + PAGE)

    def _page(self, start: int) -> None:
        self._start = max(0, min(start, (len(self._rows()) - 1) // PAGE * PAGE))
        self._list()

    def _list(self) -> None:
        rows = self._rows()
        part = rows[self._start : self._start + PAGE]
        self.console.print(_table(part, self._start))
        choices = "  ".join(f"{name}={value}" for name, value in self._choices.items())
        span = f"{self._start} to {self._start + len(part) - 1} of {len(rows)}" if part else "nothing matches"
        self.console.print(Text(plain(f"{span}{_figures(rows)}   {choices}   h: help"), style="dim"))

    def _show(self, number: int) -> None:
        row = self._row(number)
        self._open = number
        trajectory = self._collection.read(row["key"])
        print_trajectory(trajectory, self.console)
        task = self._environments.task_of(trajectory)
        if isinstance(task, Unknown):
            self.console.print(Text(plain(f"gold not shown: {task.reason}", 500), style="dim"))
        else:
            print_gold(task, self.console)
        self.console.print(Text(f"number {number}; n: next  p: previous  g: group  c: credit  w: time", style="dim"))

    def _row(self, number: int) -> Row:
        rows = self._rows()
        if not 0 <= number < len(rows):
            raise UsageError(f"number {number} is not in the list of {len(rows)}")
        return rows[number]

    def _opened(self) -> Row:
        if self._open is None:
            raise UsageError("open a trajectory first, by its number")
        return self._row(self._open)

    def _group(self) -> None:
        rows = self._collection.group(self._opened())
        attempts = [self._collection.read(row["key"]) for row in rows]
        first = attempts[0]
        for attempt in attempts:
            line = Text.assemble((f"attempt {attempt.attempt}  ", "bold"), ending_line(attempt))
            line.append(f"  {count_of(len(attempt.model_turns), 'turn')}", style="dim")
            if attempt is not first:
                line.append(f"  {_divergence(first, attempt)}", style="dim")
            self.console.print(line)

    def _times(self) -> None:
        trajectory = self._collection.read(self._opened()["key"])
        if any(turn.times is None for turn in trajectory.turns) or not trajectory.turns:
            raise UsageError("this recording lacks the times of its turns")
        self.console.print(_waterfall(trajectory))

    def _credit(self) -> None:
        trajectory = self._collection.read(self._opened()["key"])
        scheme = self._environments.scheme_of(trajectory)
        if isinstance(scheme, Unknown):
            raise UsageError(f"gates and credit cannot be shown: {scheme.reason}")
        gated, states = scheme.trace(trajectory.channels)
        table = _plain_table("turn", "channel", "raw", "gates", "gated", "credited")
        for number, paid in enumerate(scheme.contributions(trajectory.channels)):
            for name, raw in trajectory.turns[number].rewards.items():
                if raw:
                    gates = [
                        _gate(*pair) for pair in zip(scheme.gates, states[number], strict=True) if name in pair[0].opens
                    ]
                    gated_reward = f"{gated[number][name]:.4g}"
                    earned = f"{paid[name]:+.4g}" if name in paid else "not paid"
                    table.add_row(
                        str(number + 1), Text(plain(name)), f"{raw:.4g}", Text("\n".join(gates)), gated_reward, earned
                    )
        self.console.print(table)


def _table(rows: Sequence[Row], start: int) -> Table:
    costs = ("tokens in", "tokens out", "cost")
    table = _plain_table("#", "trajectory", "policy", "step", "difficulty", "turns", *costs, "reward", "ending")
    for number, row in enumerate(rows, start=start):
        mark = Text("✓ " if row["success"] else "✗ ", style="green" if row["success"] else "red")
        step = "–" if row["step"] is None else str(row["step"])
        names = [Text(plain(row[name], 100)) for name in ("id", "policy")]
        spent = ["–" if row[name] is None else f"{row[name]:.4g}" for name in ("input", "sampled", "cost")]
        figures = (step, str(row["difficulty"]), str(row["turns"]), *spent, f"{row['reward']:.4g}")
        table.add_row(str(number), *names, *figures, mark.append(plain(str(row["reason"]), 50)))
    return table


def _figures(rows: Sequence[Row]) -> str:
    """Return the success rate as in `Summary` and the median share of time in generation, if known."""
    played = [row for row in rows if not row["failed"]]
    tasks: dict[tuple[str, ...], list[bool]] = {}
    for row in played:
        tasks.setdefault((row["file"], row["env"], row["policy"], row["task"]), []).append(row["success"])
    text = f", {fmean(map(fmean, tasks.values())):.1%} solved" if tasks else ""
    times = [(row["generation"], row["environment"]) for row in played if row["generation"] is not None]
    if shares := [policy / (policy + environment) for policy, environment in times if policy + environment > 0]:
        text += f", {median(shares):.0%} of the time in generation (median)"
    return text


def _waterfall(trajectory: Trajectory) -> Table:
    """Return one row per turn: when it waited for the policy and when for the environment."""
    times_by_turn = [turn.times for turn in trajectory.turns if turn.times is not None]
    whole = (
        max(trajectory.seconds, *(part.began_s + part.generation_s + part.environment_s for part in times_by_turn))
        or 1.0
    )
    table = _plain_table("turn", "█ generation  ▒ environment", "time", "generation", "environment", "calls")
    for number, part in enumerate(times_by_turn, start=1):
        ends = [part.began_s, part.began_s + part.generation_s, part.began_s + part.generation_s + part.environment_s]
        before, middle, end = (round(_BAR * moment / whole) for moment in ends)
        bar = Text(" " * before + "█" * (middle - before), style="blue").append("▒" * (end - middle), style="yellow")
        times = (part.generation_s + part.environment_s, part.generation_s, part.environment_s)
        table.add_row(str(number), bar, *map(duration, times), Text(calls_text(part), style="dim"))
    return table


def _plain_table(*names: str) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name)
    return table


def _gate(gate: Any, state: Any) -> str:
    sign = ">" if gate.strict else "≥"
    return f"{'open' if state.open else 'shut'}: {gate.on} {sign} {gate.at_least:g} (is {state.value:g})"


def _divergence(first: Trajectory, other: Trajectory) -> str:
    """Return a note on where two attempts first differ."""
    for number, (turn, other_turn) in enumerate(zip(first.turns, other.turns, strict=False), start=1):
        if (turn.action, turn.observation) != (other_turn.action, other_turn.observation):
            return f"differs from attempt {first.attempt} at turn {number}"
    if len(first.turns) == len(other.turns):
        return f"the same as attempt {first.attempt}"
    return f"differs from attempt {first.attempt} at turn {min(len(first.turns), len(other.turns)) + 1}"
