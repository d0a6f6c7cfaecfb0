"""Messages and trajectories in a terminal."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from agentgym.core.display import plain, print_message, print_trajectory
from agentgym.core.endings import Reason
from agentgym.core.messages import Message, system, user
from agentgym.core.trajectory import Tokens, Trajectory, Turn


def console(width: int = 100) -> Console:
    return Console(file=io.StringIO(), width=width, color_system=None, force_terminal=True)


def text_in(printed: Console) -> str:
    return printed.file.getvalue()  # type: ignore[attr-defined]


def record(**values: Any) -> Trajectory:
    answer: Message = {"role": "tool", "name": "guess", "content": "It is higher."}
    turns = [
        Turn("I say 5", [answer], {"outcome": 0.0, "format": 1.0}, 0.1, (0, 4)),
        Turn("I say 7", [user("Correct.")], {"outcome": 1.0, "format": 1.0}, 1.1, (6, 9)),
    ]
    fields: dict[str, Any] = {
        "id": "guess/test/1#0",
        "env_id": "agentgym/guess-v0",
        "task_id": "guess/test/1",
        "task_hash": "h",
        "seed": 3,
        "policy": "scripted",
        "opening": [system("Play."), user("Find it.")],
        "turns": turns,
        "reason": Reason.SOLVED,
        "counts": {"calls": 2, "tool_errors": 0, "format_errors": 1},
        "tokens": Tokens([1, 2, 3], list(range(9)), [1, 1, 1, 1, 0, 0, 1, 1, 1], [0.0] * 9, [0] * 9),
    }
    return Trajectory(**fields | values)


def shown(trajectory: Trajectory, **options: Any) -> str:
    where = console()
    print_trajectory(trajectory, where, **options)
    return text_in(where)


def test_model_text_is_printed_without_markup():
    hostile = "[bold red]x[/] [/nothing] [link=file:///etc]y[/link] :smile: {}"
    text = shown(record(turns=[Turn(hostile, [user(hostile)], {"[b]": 1.0}, 0.0)], id="[i]", policy="[/b]"))
    assert text.count(hostile) == 2
    assert "[b] 1" in text


def test_control_characters_of_models_are_not_printed():
    for hostile in ("\x1b[2J\x1b]0;title\x07", "\x9b31m", "a\rb", "\x00", "\ud800", "\u202eabc", "\b\b"):
        where = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="truecolor")
        print_message(user(hostile), where)
        text = text_in(where).split("\n", 1)[1].replace("\x1b[0m", "")
        assert not any(ord(c) in range(0x7F, 0xA0) or (c < " " and c != "\n") for c in text)
        text.encode()
    assert plain("Zoë\tsaid\n“hi” 🙂") == "Zoë\tsaid\n“hi” 🙂"
