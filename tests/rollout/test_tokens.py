"""The tokens that a rollout records of a token policy."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentgym.base.errors import InfrastructureError
from agentgym.core.endings import Reason
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.trajectory import Tokens, Trajectory
from agentgym.envs.guess import GuessEnv
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
