"""`agentgym play`: typed lines, commands, and the end of a game."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from agentgym.base.errors import ToolError
from agentgym.cli.play import PlaySession
from agentgym.core.env import Env
from agentgym.core.messages import calls_of
from agentgym.core.task import Task, TaskList
from agentgym.core.toolset import tool
from agentgym.envs.guess import GuessEnv
from agentgym.eval.human import read_action
from tests.refusals import differing, not_refused

HIDDEN = 7
TASK = Task("guess/mine/1", "train", "Find it.", data={"highest": 10}, gold={"number": HIDDEN})


def play(*lines: str) -> tuple[bool, str]:
    """Play a session with these typed lines; return whether it was solved, and the screen."""
    console = Console(file=io.StringIO(), width=100)
    typed: Iterator[str] = iter(lines)

    def read(prompt: str) -> str:
        line = next(typed, None)
        if line is None:
            raise EOFError
        if line == "^C":
            raise KeyboardInterrupt
        return line

    solved = PlaySession(GuessEnv, seed=1, options={"task": TASK}, console=console, read=read).play()
    assert next(typed, None) is None, "everything typed was read"
    return solved, console.file.getvalue()  # type: ignore[attr-defined]


class Desk(Env):
    """Has tools with zero to three arguments."""

    @classmethod
    def default_tasks(cls) -> TaskList:
        return TaskList([Task("desk/1", "train", "Tidy up.")])

    @tool
    def query(self, sql: str, limit: int = 10) -> str:
        """Run a query.

        Args:
            sql: The query.
            limit: Rows to show.
        """
        return sql

    @tool
    def look(self) -> str:
        """Look."""
        return "A desk."

    @tool
    def move(self, thing: str, x: float, flags: list[str]) -> str:
        """Move.

        Args:
            thing: A thing.
            x: A place.
            flags: Options.
        """
        return f"{thing} {x} {flags}"


def typed(line: str) -> Any:
    """Return the action of a line: the name and arguments of a call, or text."""
    env = Desk()
    env.reset(seed=0)
    action = read_action(line, env.tools, env.dialect)
    if isinstance(action, str):
        return action
    (call,) = calls_of(action)
    return call.name, dict(call.arguments)


CALL = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
LINES: list[tuple[str, Any]] = [
    ("look", ("look", {})),
    ("query SELECT a FROM b WHERE c = 'd e'", ("query", {"sql": "SELECT a FROM b WHERE c = 'd e'"})),
    ("query SELECT 1\nFROM t", ("query", {"sql": "SELECT 1\nFROM t"})),
    ("query sql='SELECT 1' limit=3", ("query", {"sql": "SELECT 1", "limit": 3})),
    ('query {"sql": "SELECT 1", "limit": 3}', ("query", {"sql": "SELECT 1", "limit": 3})),
    ("move thing='red pen' x=1.5 flags='[\"a\"]'", ("move", {"thing": "red pen", "x": 1.5, "flags": ["a"]})),
    (CALL, CALL),  # in the dialect of the environment
]
SLIPS = [
    ("qurey SELECT 1", "Did you mean 'query'?"),
    ("move pen", "Write move thing=… x=… flags=…, or a JSON object."),
    ("move thing=pen x=far flags=[]", "argument 'x'"),
    ("look closely", "look takes no arguments"),
    ("query", "'sql' is missing"),
]


def test_lines_become_calls_and_mistakes_are_explained():
    assert differing(typed, LINES) == []
    assert not_refused(typed, SLIPS, ToolError) == []


def test_a_game_can_be_won_lost_or_given_up():
    solved, screen = play("guess 5", f"guess {HIDDEN}")
    parts = ("Find it.", "guess NUMBER", "It is higher.", "Correct.", "turn 2 of 12", "Solved", "outcome")
    assert (solved, [part for part in (*parts, "solved after 2 turns") if part not in screen]) == (True, [])
    solved, screen = play(*["guess 1"] * 12)
    assert (solved, "Not solved" in screen, "max turns after 12 turns" in screen) == (False, True, True)
    for last in ([], [":quit"], [":q"], ["^C"]):
        solved, screen = play("guess 5", *last)
        assert (solved, "gave up after 1 turn" in screen) == (False, True)


def test_typing_mistakes_and_commands_cost_no_turn_but_say_does():
    slips = ["", "gues 5", "guess five", "guess", ":nothing", ":help", ":tools", ":task"]
    _, screen = play(*slips, "guess 5", ":q")
    assert "turn 1 of 12" in screen
    assert "turn 2" not in screen
    assert "Did you mean 'guess'?" in screen
    assert "':nothing'" in screen
    _, screen = play(":say nonsense", ":q")
    assert "No tool call was found" in screen
    assert "turn 1 of 12" in screen
