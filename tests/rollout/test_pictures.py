"""Pictures reach token policies that see, in order, and their tokens count."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agentgym.core.endings import Reason
from agentgym.core.policy import Generation, SeeingPolicy
from agentgym.core.trajectory import Trajectory
from agentgym.rollout import Job, Limits
from agentgym.rollout.streams import play_jobs
from tests.core.test_pictures import PNG, WindowEnv
from tests.rollout_cases import Factory, Speaker

LOOK = '<tool_call>{"name": "look", "arguments": {"times": 2}}</tool_call>'
ANSWER = '<tool_call>{"name": "answer", "arguments": {"text": "x"}}</tool_call>'


class Eyes(Speaker):
    """A policy that records what it sees."""

    def __init__(self, lines: Sequence[str], *, sees: bool = True, context: int = 100_000):
        super().__init__(lines, context)
        self.sees = sees
        self.seen: list[tuple[bytes, ...] | None] = []
        self.budgets: list[int] = []

    def picture_tokens(self, picture: bytes) -> int:
        assert picture == PNG
        return 1_000

    async def generate(self, ids: Sequence[int], max_new_tokens: int, session: str, **more: Any) -> Generation:
        self.seen.append(more.get("pictures"))
        self.budgets.append(max_new_tokens)
        return await super().generate(ids, max_new_tokens, session)


def play(policy: Any) -> Trajectory:
    job = Job(WindowEnv.default_tasks().get("train", 0), seed=0)
    [played] = asyncio.run(play_jobs([job], policy, Factory(build=WindowEnv), Limits(max_new_tokens=10**6)))
    return played


def test_a_vision_policy_gets_every_picture_so_far():
    policy = Eyes([LOOK, ANSWER])
    assert isinstance(policy, SeeingPolicy)
    assert play(policy).counts["calls"] == 2
    assert policy.seen == [(PNG,), (PNG, PNG, PNG)]


def test_the_tokens_of_pictures_leave_less_room_for_text():
    policy, blind = Eyes([LOOK, ANSWER]), Eyes([LOOK, ANSWER], sees=False)
    play(policy)
    play(blind)
    assert blind.seen == [None, None]
    assert [other - own for own, other in zip(policy.budgets, blind.budgets, strict=True)] == [1_000, 3_000]


def test_pictures_that_do_not_fit_end_the_episode_before_a_turn():
    policy = Eyes([LOOK, ANSWER], context=3_000)
    assert play(policy).reason is Reason.CONTEXT
    assert len(policy.seen) == 1
