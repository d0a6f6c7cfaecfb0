"""Print messages and trajectories in a terminal. Text from models and tools is printed literally, never as markup."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from agentgym.base.choices import count_of
from agentgym.core.endings import Ending
from agentgym.core.engine.spaces import Finish, finish_of
from agentgym.core.messages import Message, text_of
from agentgym.core.task import Task
from agentgym.core.timing import TurnTimes
from agentgym.core.trajectory import Trajectory, Turn

MAX_CHARS = 2000
"""Longer contents are shortened in the middle, with a note."""

_MAX_CALLS = 4
"""Maximum number of calls of a turn whose times are shown."""

ROLE_STYLES = {"system": "magenta", "user": "blue", "assistant": "green", "tool": "yellow"}

_LIMITS: Mapping[Finish | None, str] = {"length": "token limit", "time": "time limit"}
"""What cuts a turn off."""

_ENDING_STYLES = {Ending.TERMINATED: "cyan", Ending.TRUNCATED: "yellow", Ending.FAILED: "bold red"}

# Control characters could move the cursor or change colours; lone surrogates cannot be printed.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def plain(text: str, max_chars: int | None = MAX_CHARS) -> str:
    """Return text that is safe to print: bounded and without control characters."""
    if max_chars is not None and len(text) > max_chars:
        half = max_chars // 2
        text = f"{text[:half]}\n[… {len(text) - 2 * half} characters not shown …]\n{text[-half:]}"
    return _UNSAFE.sub(_visible, text.replace("\r\n", "\n"))


def print_message(message: Mapping[str, Any], console: Console, max_chars: int | None = MAX_CHARS) -> None:
    """Print one chat message under its role."""
    role = str(message.get("role"))
    style = ROLE_STYLES.get(role, "white")
    name = plain(str(message["name"]), 100) if message.get("name") else ""
    console.print(Text.assemble((role, f"bold {style}"), (f" {name}" if name else "", style)))
    body = [plain(text_of(message), max_chars)] if text_of(message) else []
    body += [_block(block) for block in _other_blocks(message)]
    calls = message.get("tool_calls") or []
    body += [_call(call, max_chars) for call in (calls if isinstance(calls, list) else [calls])]
    text = Text("\n".join(body) or "(empty)", style="" if body and role != "system" else "dim")
    console.print(Padding(text, (0, 0, 0, 2)))


def print_trajectory(trajectory: Trajectory, console: Console | None = None, max_chars: int | None = MAX_CHARS) -> None:
    """Print a trajectory: header, ending, and the conversation with each turn's rewards.

    Args:
        trajectory: The trajectory to print.
        console: The console to print to; by default the terminal.
        max_chars: Contents are cut to about this many characters; `None` shows all.
    """
    console = console or Console()
    console.print(Rule(Text(plain(trajectory.id, 200), style="bold"), align="left", style="dim"))
    console.print(_header(trajectory))
    for message in trajectory.opening:
        console.print()
        print_message(message, console, max_chars)
    for number, turn in enumerate(trajectory.turns, start=1):
        console.print()
        _print_turn(number, turn, console, max_chars)
    for name, value in trajectory.details.items():
        console.print()
        console.print(Text.assemble((plain(name, 100), "bold"), " ", plain(_as_text(value), max_chars)))
    if trajectory.search:
        console.print()
        console.print(_search_line(trajectory.search))
    console.print()
    console.print(ending_line(trajectory))


def _search_line(search: Mapping[str, float]) -> Text:
    """Return the costs of the search that chose a trajectory."""
    costs = "  ".join(f"{name.replace('_', ' ')} {value:.6g}" for name, value in search.items() if name != "oracle")
    note = "  chosen by the reward itself" if search.get("oracle") else ""
    return Text.assemble(("whole search", "bold"), "  ", plain(costs), (note, "yellow"))


def print_gold(task: Task, console: Console, max_chars: int | None = MAX_CHARS) -> None:
    """Print a task's gold."""
    console.print(Text("gold", style="bold"))
    for name, value in task.gold.items():
        console.print(
            Padding(Text.assemble((plain(name, 100), "bold"), " ", plain(_as_text(value), max_chars)), (0, 2))
        )


def ending_line(trajectory: Trajectory) -> Text:
    """Return how an episode ended, in one line."""
    mark = "✓ solved" if trajectory.success else "✗ not solved"
    line = Text.assemble((mark, "bold green" if trajectory.success else "bold red"))
    if (ending := trajectory.ending) is None:
        line.append("  not ended", style="dim")
    else:
        line.append(f"  {ending} ({trajectory.reason})", style=_ENDING_STYLES[ending])
    line.append(f"  reward {trajectory.reward:.4g}")
    if trajectory.error:
        line.append(f"\n{plain(trajectory.error)}", style="red")
    return line


def rewards_text(rewards: Mapping[str, float], reward: float) -> Text:
    """Return a turn's reward and its channels, with zeros dimmed."""
    line = Text.assemble(("reward ", "dim"), (f"{reward:+.4g}", "bold" if reward else "dim"))
    for name, value in rewards.items():
        line.append(f"  {name} {value:.4g}", style=_sign_style(value))
    return line


def select(
    trajectories: Iterable[Trajectory], *, task: str | None = None, failed: bool = False, successes: bool = False
) -> list[Trajectory]:
    """Filter trajectories by task and by success.

    Args:
        trajectories: The trajectories to filter.
        task: Id of a task or of a trajectory.
        failed: Keep only trajectories that did not solve their task, including failed episodes.
        successes: Keep only trajectories that solved their task.
    """
    return [
        t
        for t in trajectories
        if (task is None or task in (t.task_id, t.id))
        and not (failed and t.success)
        and not (successes and not t.success)
    ]


def print_list(trajectories: Sequence[Trajectory], console: Console) -> None:
    """Print one line per trajectory."""
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("#", justify="right", style="dim")
    table.add_column("trajectory")
    for name in ("difficulty", "turns", "reward"):
        table.add_column(name, justify="right")
    table.add_column("ending")
    for index, t in enumerate(trajectories):
        mark = Text("✓ " if t.success else "✗ ", style="green" if t.success else "red")
        ending = Text.assemble(mark, (str(t.reason), _ENDING_STYLES[t.ending] if t.ending else "dim"))
        turns, reward = str(len(t.model_turns)), f"{t.reward:.4g}"
        cells = (str(index), Text(plain(t.id, 200)), str(t.difficulty), turns, reward, ending)
        table.add_row(*cells)
    console.print(table)


def _header(trajectory: Trajectory) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column()
    tags = f"  {' '.join(trajectory.tags)}" if trajectory.tags else ""
    task = f"{trajectory.task_id}  difficulty {trajectory.difficulty}  attempt {trajectory.attempt}{tags}"
    table.add_row("task", Text(plain(task)))
    arguments = f"  {json.dumps(trajectory.env_kwargs)}" if trajectory.env_kwargs else ""
    table.add_row("environment", Text(plain(f"{trajectory.env_id}{arguments}  seed {trajectory.seed}")))
    table.add_row("policy", Text(plain(trajectory.policy)))
    table.add_row("ending", ending_line(trajectory))
    counts = "  ".join(f"{name.replace('_', ' ')} {count}" for name, count in trajectory.counts.items())
    table.add_row("turns", Text(plain(f"{len(trajectory.model_turns)}  {counts}  {trajectory.seconds:.2f} s")))
    if (tokens := trajectory.tokens) is not None:
        observed = len(tokens.completion_ids) - tokens.sampled
        table.add_row("tokens", f"{len(tokens.prompt_ids)} prompt  {tokens.sampled} sampled  {observed} observed")
    if trajectory.usage:
        usage = "  ".join(f"{name.replace('_', ' ')} {value:.6g}" for name, value in trajectory.usage.items())
        table.add_row("usage", Text(plain(usage)))
    return table


def times_text(times: TurnTimes) -> str:
    """Return the times of a turn, in one line."""
    inside = f" ({calls_text(times)})" if times.calls else ""
    return f"generation {duration(times.generation_s)}, environment {duration(times.environment_s)}{inside}"


def calls_text(times: TurnTimes) -> str:
    """Return the times of a turn's calls, in one line."""
    calls = [f"{plain(name, 100)} {duration(seconds)}" for name, _, seconds in times.calls[:_MAX_CALLS]]
    return ", ".join(calls + ["…"] * (len(times.calls) > _MAX_CALLS))


def duration(seconds: float) -> str:
    """Format a time in seconds or milliseconds."""
    return f"{seconds:.2f} s" if seconds >= 0.1 else f"{1000 * seconds:.2g} ms"


def _print_turn(number: int, turn: Turn, console: Console, max_chars: int | None) -> None:
    label = Text.assemble((f"turn {number}", "bold reverse"), "  ", rewards_text(turn.rewards, turn.reward))
    if turn.span is not None:
        label.append(f"  {count_of(turn.span[1] - turn.span[0], 'token')}", style="dim")
    if turn.times is not None:
        label.append(f"  {times_text(turn.times)}", style="dim")
    if limit := _LIMITS.get(turn.finish or finish_of(turn.action)):
        label.append(f"  cut off at the {limit}", style="yellow")
    console.print(label)
    messages: list[Mapping[str, Any] | Message] = []
    if turn.action is None:
        console.print(Text("(interrupted; graded in its current state)", style="dim"))
    else:
        action = turn.action
        messages.append({"role": "assistant", "content": action} if isinstance(action, str) else action)
    for message in [*messages, *turn.observation]:
        print_message(message, console, max_chars)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _sign_style(value: float) -> str:
    return "dim" if value == 0 else "green" if value > 0 else "red"


def _other_blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, Mapping) and block.get("type") != "text"]


def _block(block: Mapping[str, Any]) -> str:
    return plain(f"[{block.get('type', 'unknown block')}]", 100)


def _call(call: Any, max_chars: int | None) -> str:
    function = call.get("function", call) if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping):
        return plain(f"→ {call!r}", max_chars)
    arguments = function.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return plain(f"→ {function.get('name')} {text}", max_chars)


def _visible(match: re.Match[str]) -> str:
    """Return the visible symbol of a control character, or the replacement character if it has none."""
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"
