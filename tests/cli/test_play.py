from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from agentgym.commands.play import Session
from agentgym.commands.typed import read_action
from agentgym.endings import Reason
from agentgym.engine.steps import Solution
from agentgym.env import Env
from agentgym.envs.guess import GuessEnv
from agentgym.errors import ToolError
from agentgym.messages import ToolCall, calls_of
from agentgym.rewards import OUTCOME
from agentgym.task import Task, TaskList
from agentgym.toolset import tool

HIDDEN = 7
TASK = Task("guess/mine/1", "train", "Find it.", data={"highest": 10}, gold={"number": HIDDEN})


def play(*lines: str, make: Any = GuessEnv, task: Task = TASK) -> tuple[bool, str]:
    """Play a session with these lines typed; return whether it was solved, and what was on the screen."""
    console = Console(file=io.StringIO(), width=100)
    typed: Iterator[str] = iter(lines)

    def read(prompt: str) -> str:
        line = next(typed, None)
        if line is None:
            raise EOFError
        if line == "^C":
            raise KeyboardInterrupt
        return line

    solved = Session(make, seed=1, options={"task": task}, console=console, read=read).play()
    assert next(typed, None) is None, "everything typed was read"
    return solved, console.file.getvalue()  # type: ignore[attr-defined]


class Desk(Env):
    """Tools of all shapes."""

    def __init__(self, **kwargs: Any):
        self.seen: list[Any] = []
        super().__init__(**kwargs)

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
        self.seen.append((sql, limit))
        return "[bold]rows[/bold]"

    @tool
    def look(self) -> str:
        """Look."""
        return "A desk."

    @tool
    def move(self, thing: str, x: float, flags: list[str]) -> str:
        """Move.

        Args:
            thing: What.
            x: Where to.
            flags: How.
        """
        return f"{thing} {x} {flags}"

    def solution(self, task: Task) -> Solution:
        yield ToolCall("query", {"sql": "SELECT 1"})
        self.reward(OUTCOME, 1.0)
        self.finish(Reason.SOLVED)
        yield ToolCall("move", {"thing": "pen", "x": 1.5, "flags": []})


def typed(line: str) -> Any:
    """What a line becomes: a call's arguments with its name, or text."""
    env = Desk()
    env.reset(seed=0)
    action = read_action(line, env.tools, env.dialect)
    if isinstance(action, str):
        return action
    (call,) = calls_of(action)
    return call.name, dict(call.arguments)


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("look", ("look", {})),
        ("look {}", ("look", {})),
        ("query SELECT a FROM b WHERE c = 'd e'", ("query", {"sql": "SELECT a FROM b WHERE c = 'd e'"})),
        ("query SELECT 1\nFROM t", ("query", {"sql": "SELECT 1\nFROM t"})),
        ("query\nSELECT 1", ("query", {"sql": "SELECT 1"})),
        ("query 5", ("query", {"sql": "5"})),
        ("query sql='SELECT 1' limit=3", ("query", {"sql": "SELECT 1", "limit": 3})),
        ('query {"sql": "SELECT 1", "limit": 3}', ("query", {"sql": "SELECT 1", "limit": 3})),
        ("query {not json", ("query", {"sql": "{not json"})),
        ("query it's", ("query", {"sql": "it's"})),
        ("query limit=3", ("query", {"sql": "limit=3"})),
        ('move thing="red pen" x=1.5 flags=["a"]', None),
        ("move thing='red pen' x=1.5 flags='[\"a\"]'", ("move", {"thing": "red pen", "x": 1.5, "flags": ["a"]})),
    ],
)
def test_what_is_typed_becomes_the_call_that_was_meant(line: str, meant: Any):
    if meant is None:
        with pytest.raises(ToolError):
            typed(line)
    else:
        assert typed(line) == meant


def test_a_call_in_the_environments_dialect_is_sent_as_it_is():
    line = '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
    assert typed(line) == line


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("qurey SELECT 1", "Did you mean 'query'?"),
        ("move pen", "Write move thing=… x=… flags=…, or a JSON object."),
        ("move thing=pen x=far flags=[]", "argument 'x'"),
        ("look closely", "look takes no arguments"),
        ("query", "'sql' is missing"),
        ("<tool_call>{oops", "never closed"),
    ],
)
def test_a_slip_is_explained(line: str, told: str):
    with pytest.raises(ToolError) as slip:
        typed(line)
    assert told in str(slip.value)


def test_without_tools_a_line_is_what_is_said():
    class Quiz(Env):
        def respond(self, text: str) -> str:
            return "no"

    env = Quiz(tasks=TaskList([TASK]))
    env.reset(seed=0)
    assert read_action("guess 5 or so", env.tools, env.dialect) == "guess 5 or so"


def test_a_game_can_be_won():
    solved, screen = play("guess 5", f"guess {HIDDEN}")
    assert solved
    for part in ("Find it.", "guess NUMBER", "It is higher.", "Correct.", "turn 2 of 12", "Solved", "outcome"):
        assert part in screen
    assert "solved after 2 turns" in screen


def test_a_game_can_be_lost_and_says_so():
    solved, screen = play(*["guess 1"] * 12)
    assert not solved
    assert "Not solved" in screen
    assert "max turns after 12 turns" in screen


@pytest.mark.parametrize("last", [[], [":quit"], [":q"], ["^C"]])
def test_giving_up_is_graded_and_shows_the_result(last: list[str]):
    solved, screen = play("guess 5", *last)
    assert not solved
    assert "gave up after 1 turn" in screen


def test_slips_and_commands_cost_no_turn():
    slips = ["", "gues 5", "guess five", "guess", ":nothing", ":help", ":tools", ":task"]
    _, screen = play(*slips, "guess 5", ":q")
    assert "turn 1 of 12" in screen
    assert "turn 2" not in screen
    assert "Did you mean 'guess'?" in screen
    assert "There is no ':nothing'" in screen


def test_the_model_s_own_mistakes_can_be_made_on_purpose():
    _, screen = play(":say nonsense", ":q")
    assert "No tool call was found" in screen
    assert "turn 1 of 12" in screen


def test_a_line_goes_on_after_a_backslash():
    made: list[Desk] = []

    def make() -> Desk:
        made.append(Desk())
        return made[-1]

    play("query SELECT 1\\", "FROM t", make=make, task=Desk.default_tasks().get("train", 0))
    assert made[0].seen == [("SELECT 1\nFROM t", 10)]


def test_the_solution_is_played_elsewhere_and_changes_nothing():
    solved, screen = play("guess 5", ":solution", f"guess {HIDDEN}")
    assert solved
    assert "> guess 8" in screen
    assert "turn 2 of 12" in screen


def test_an_environment_without_a_solution_says_so():
    class Unsolved(GuessEnv):
        solution = Env.solution

    assert "has no solution" in play(":solution", make=Unsolved)[1]


def test_results_are_never_taken_for_markup():
    _, screen = play("query SELECT 1", make=Desk, task=Desk.default_tasks().get("train", 0))
    assert "[bold]rows[/bold]" in screen


def test_every_environment_made_is_closed():
    open_now: list[Env] = []

    class Watched(GuessEnv):
        def __init__(self) -> None:
            super().__init__()
            open_now.append(self)

        def release(self) -> None:
            if self in open_now:
                open_now.remove(self)

    play("guess 5", ":solution", ":q", make=Watched)
    assert open_now == []
