"""The tokens that a rollout records of a token policy."""

from __future__ import annotations

import random
from contextlib import closing
from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.base.errors import InfrastructureError
from agentgym.core.endings import Reason
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall, text_of
from agentgym.core.replay import replay
from agentgym.core.task import Task, TaskList
from agentgym.core.toolset import tool
from agentgym.core.trajectory import Tokens, Trajectory
from agentgym.envs.guess import GuessEnv
from agentgym.eval.results.columns import row_of
from agentgym.eval.summary import summarize
from agentgym.rollout import Job
from tests.rollout_cases import Factory, Letters, Speaker, jobs, run


class Echo(GuessEnv):
    """Answers everything with a fixed line."""

    max_format_errors = 10_000
    answer = "no"

    def _read(self, action: Any) -> Any:
        return action, ()

    def respond(self, text: str) -> str:
        return self.answer


def guess(number: int) -> str:
    return GuessEnv().dialect.render("", [ToolCall("guess", {"number": number})], GuessEnv.tools)


def tokens_of(trajectory: Trajectory) -> Tokens:
    assert trajectory.tokens is not None
    return trajectory.tokens


def check_stream(trajectory: Trajectory, codec: Letters) -> None:
    """Assert the invariants of every recorded token stream."""
    tokens = tokens_of(trajectory)
    lengths = {len(part) for part in (tokens.completion_ids, tokens.loss_mask, tokens.logprobs, tokens.versions)}
    assert len(lengths) == 1
    covered = [0] * len(tokens.completion_ids)
    for turn in trajectory.turns:
        if turn.span is not None:
            start, end = turn.span
            covered[start:end] = [1] * (end - start)
            assert codec.decode(tokens.completion_ids[start:end]) == turn.action
    assert covered == tokens.loss_mask
    for mask, logprob, version in zip(tokens.loss_mask, tokens.logprobs, tokens.versions, strict=True):
        assert (logprob < 0 and version >= 0) if mask else (logprob == 0.0 and version == -1)


def test_token_streams_hold_sampled_and_observed_tokens():
    policy = Speaker([guess(1000), guess(999)])
    (trajectory,) = run(jobs(1), policy, Factory(kwargs={"max_turns": 3}))
    check_stream(trajectory, policy.codec)
    assert [t.span is not None for t in trajectory.turns] == [True] * 3
    last = trajectory.turns[-1].span
    assert last is not None
    assert last[1] == len(tokens_of(trajectory).completion_ids), "nothing follows the last turn"


def test_a_prompt_that_does_not_fit_ends_the_episode_at_once():
    (trajectory,) = run(jobs(1), Speaker(["x"], context=5))
    assert trajectory.reason is Reason.CONTEXT
    assert tokens_of(trajectory).sampled == 0


def test_sessions_are_released_and_a_retry_starts_a_new_one():
    broken: list[Env] = []

    class Breaking(GuessEnv):
        def _read(self, action: Any) -> Any:
            if not broken and len(self.snapshot().actions) == 2:
                broken.append(self)
                raise InfrastructureError("gone")
            return super()._read(action)

    policy = Speaker([guess(1000)])
    (trajectory,) = run(jobs(1), policy, Factory(build=Breaking))
    check_stream(trajectory, policy.codec)
    assert trajectory.error is None
    assert broken
    assert policy.history == {}


lines = st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=30), min_size=1, max_size=4)


@given(
    spoken_lines=lines,
    answer=st.text(st.characters(exclude_categories=("Cs",)), max_size=20),
    turns=st.integers(1, 5),
    room=st.integers(1, 40),
)
def test_history_is_the_exact_concatenation_of_its_parts(spoken_lines: list[str], answer: str, turns: int, room: int):
    kind = type("Answering", (Echo,), {"answer": answer})
    policy = Speaker(spoken_lines)
    factory = Factory(build=kind, kwargs={"max_turns": turns})
    (trajectory,) = run(jobs(1), policy, factory, max_new_tokens=room)
    check_stream(trajectory, policy.codec)
    tokens = tokens_of(trajectory)
    rebuilt = policy.codec.open(trajectory.opening, ())
    assert tokens.prompt_ids == rebuilt
    for turn in trajectory.turns:
        assert turn.span is not None
        spoken = tokens.completion_ids[slice(*turn.span)]
        rebuilt += spoken
        if turn is not trajectory.turns[-1]:
            rebuilt += policy.codec.extend(turn.observation, spoken[-1])
    assert rebuilt == tokens.prompt_ids + tokens.completion_ids


def test_many_conversations_at_once_do_not_mix():
    policy = Speaker([guess(n) for n in random.Random(0).sample(range(1, 11), 5)])
    together = run(jobs(10, attempts=2), policy, max_in_flight=20)
    alone = run(jobs(10, attempts=2), policy, max_in_flight=1)
    assert [t.tokens for t in together] == [t.tokens for t in alone]


class Asking(Env):
    """Wants the number 4, as text or from a tool that takes text; what was graded is in `graded`."""

    graded: ClassVar[list[str]] = []

    def start(self, task: Task) -> None:
        self.graded.clear()

    def answered(self, text: str) -> str:
        self.graded.append(text)
        self.reward("outcome", float(text == "4"))
        self.finish(Reason.ANSWERED)
        return "noted"

    def respond(self, text: str) -> str:
        return self.answered(text)


class AskingByTool(Asking):
    @tool
    def submit(self, text: str) -> str:
        """Submit the number.

        Args:
            text: The number.
        """
        return self.answered(text)


@pytest.mark.parametrize(("kind", "before"), [(Asking, ""), (AskingByTool, "@submit ")])
def test_a_turn_that_reaches_its_token_limit_is_no_answer(kind: type[Asking], before: str):
    """Nothing closes a call of `compact`, and every text is an answer: a prefix would be graded, and here solved."""
    tasks = TaskList([Task("ask/0", "train", "2 + 2?")])
    factory = Factory(build=partial(kind, tasks=tasks), kwargs={"dialect": "compact"})
    policy = Speaker([f"{before}42", f"{before}4"])
    (trajectory,) = run([Job(tasks.get("train", 0), 0)], policy, factory, max_new_tokens=len(before) + 1)
    assert trajectory.reason is Reason.FORMAT_ERRORS
    (trajectory,) = run([Job(tasks.get("train", 0), 0)], policy, factory, max_new_tokens=len(before) + 2)
    assert kind.graded == ["4"]
    assert trajectory.success
    assert [turn.finish for turn in trajectory.turns] == ["length", "stop"]
    assert trajectory.cut_turns == [True, False]
    assert f"limit of {len(before) + 2} tokens" in text_of(trajectory.turns[0].observation[0])
    assert trajectory.counts["errors/cut_off"] == 1
    assert Trajectory.from_dict(trajectory.to_dict()) == trajectory
    with closing(factory()) as env:
        assert replay(trajectory, env, tasks.get("train", 0)) is None, "the recording says which turn was cut off"
    summary = summarize([trajectory])
    assert (summary.cut_turn_rate, summary.format_errors) == (0.5, {"cut_off": 0.5})
    assert row_of(trajectory)["cut_turns"] == 1
