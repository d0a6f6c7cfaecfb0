"""Messages and trajectories in a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from agentgym.core.display import plain, print_message, print_trajectory
from agentgym.core.messages import system, user
from agentgym.core.trajectory import Trajectory, Turn


def test_model_text_is_printed_without_markup():
    hostile = "[bold red]x[/] [/nothing] [link=file:///etc]y[/link] :smile: {}"
    turns = [Turn(hostile, [user(hostile)], {"[b]": 1.0}, 0.0)]
    where = Console(file=io.StringIO(), width=100, color_system=None, force_terminal=True)
    print_trajectory(Trajectory("[i]", "guess", "t", "h", 3, "[/b]", [system("Play.")], turns=turns), where)
    text = where.file.getvalue()  # type: ignore[attr-defined]
    assert text.count(hostile) == 2
    assert "[b] 1" in text


def test_control_characters_of_models_are_not_printed():
    for hostile in ("\x1b[2J\x1b]0;title\x07", "\x9b31m", "a\rb", "\x00", "\ud800", "\u202eabc", "\b\b"):
        where = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="truecolor")
        print_message(user(hostile), where)
        text = where.file.getvalue().split("\n", 1)[1].replace("\x1b[0m", "")  # type: ignore[attr-defined]
        assert not any(ord(c) in range(0x7F, 0xA0) or (c < " " and c != "\n") for c in text)
        text.encode()
    assert plain("Zoë\tsaid\n“hi” 🙂") == "Zoë\tsaid\n“hi” 🙂"


def test_a_turn_that_was_cut_off_names_the_limit():
    where = Console(file=io.StringIO(), width=100, color_system=None)
    turns = [Turn("I was", [], {}, 0.0, finish=finish) for finish in ("length", "time", "stop")]
    print_trajectory(Trajectory("i", "guess", "t", "h", 3, "p", [], turns=turns), where)
    labels = [line for line in where.file.getvalue().split("\n") if line.startswith("turn")]  # type: ignore[attr-defined]
    assert ["token limit" in labels[1], "time limit" in labels[2], "cut off" in labels[3]] == [True, True, False]
