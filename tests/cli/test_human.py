"""The policy `human`, at a scripted and at a real terminal."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from rich.console import Console

from agentgym.core.endings import Reason
from agentgym.core.messages import calls_of
from agentgym.core.task import Task
from agentgym.core.trajectory import read_jsonl
from agentgym.eval.evaluation import Summary, evaluate_async
from agentgym.eval.human import HumanPolicy, Stopped
from agentgym.rollout import EnvFactory, Limits

FACTORY = EnvFactory("agentgym/guess-v0", {"max_turns": 3})
TASKS = [Task(f"guess/mine/{n}", "train", "Find it.", data={"highest": 10}, gold={"number": n}) for n in (3, 7)]


def play(out: Path, *lines: str) -> tuple[Summary | None, str]:
    """Evaluate a person who types these lines; return the summary, or `None` if they stopped, and the screen."""
    console = Console(file=io.StringIO(), width=100)
    typed: Iterator[str] = iter(lines)

    def read(prompt: str) -> str:
        line = next(typed, "^D")
        if line in ("^C", "^D"):
            raise KeyboardInterrupt if line == "^C" else EOFError
        return line

    human = HumanPolicy(console, read)
    limits = Limits(max_in_flight=1, retries=0)
    try:
        run = evaluate_async(FACTORY, human, TASKS, out=out, limits=limits, on_progress=human.ended)
        summary: Summary | None = asyncio.run(run)
    except Stopped:
        summary = None
    return summary, console.file.getvalue()  # type: ignore[attr-defined]


def test_a_person_plays_with_the_tools_and_text_of_a_model(tmp_path: Path):
    summary, screen = play(tmp_path / "a.jsonl", "guess 5", "guess 3", ":help", "giess 1", ":say Seven?", ":quit")
    assert summary is not None
    assert summary.endings == {"solved": 1, "gave_up": 1}
    for part in ("Find it.", "guess NUMBER", "It is lower.", "Solved", "(1 of 2)", "Did you mean", "gave up after 1"):
        assert part in screen
    assert ":solution" not in screen
    won, given_up = read_jsonl(tmp_path / "a.jsonl")
    actions = [turn.action for turn in won.turns if isinstance(turn.action, Mapping)]
    assert [call.arguments for action in actions for call in calls_of(action)] == [{"number": 5}, {"number": 3}]
    assert (won.policy, given_up.turns[0].action, given_up.reason) == ("human", "Seven?", Reason.GAVE_UP)


@pytest.mark.parametrize("stop", ["^C", "^D"])
def test_a_stopped_evaluation_resumes_without_the_unfinished_episode(tmp_path: Path, stop: str):
    out = tmp_path / "a.jsonl"
    assert play(out, "guess 3", "guess 1", stop)[0] is None
    assert [episode.task_id for episode in read_jsonl(out)] == ["guess/mine/3"]
    summary, screen = play(out, "guess 7")
    assert summary is not None
    assert summary.success == 1.0
    assert "(1 of 2)" not in screen, "earlier episodes are not reported again"
    assert [episode.task_id for episode in read_jsonl(out)] == ["guess/mine/3", "guess/mine/7"]
