"""Exact bounds of rollouts: tokens, retries, environments, defaults; and the task of a seed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial
from math import inf, nan
from random import Random
from typing import Any

import pytest

from agentgym import make
from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.env import Env
from agentgym.core.messages import Message
from agentgym.core.policy import Generation
from agentgym.core.trajectory import Trajectory
from agentgym.envs.guess import GuessEnv
from agentgym.rollout import Backoff, EnvFactory, Failures, Group, Job, Limits
from agentgym.rollout.streams import play_jobs
from agentgym.rollout.workers.pool import EnvPool
from tests.waiting import HANG_S

GUESS = EnvFactory("agentgym/guess-v0", {})
TASK = GuessEnv.default_tasks().get("train", 0)


class Codec:
    """A codec that encodes everything as three tokens."""

    def open(self, messages: Sequence[Message], tools: Sequence[Any]) -> list[int]:
        return [1, 1, 1]

    def extend(self, observation: Sequence[Message], last_id: int) -> list[int]:
        assert last_id == 9, "the token that ended the turn"
        return [1, 1, 1]

    def decode(self, ids: Sequence[int]) -> str:
        return "hm"


class Talker:
    """Samples up to a number of tokens, and records the allowed numbers."""

    name = "talker"

    def __init__(self, says: int, context: int = 1_000):
        self.codec, self.context, self.says, self.rooms = Codec(), context, says, list[int]()

    async def generate(self, ids: Sequence[int], max_new_tokens: int, session: str, **_: Any) -> Generation:
        self.rooms.append(max_new_tokens)
        count = min(self.says, max_new_tokens)
        return Generation([*range(2, count + 1), 9], [-1.0] * count, "stop")

    def release(self, session: str) -> None: ...


def play(policy: Any, **limits: Any) -> Trajectory:
    [trajectory] = asyncio.run(play_jobs([Job(TASK, 0)], policy, GUESS, Limits(**limits)))
    return trajectory


def test_the_last_token_of_the_context_is_used():
    # 3 prompt tokens, then 4 sampled and 3 observed tokens per turn.
    exact, short = Talker(4, context=11), Talker(4, context=10)
    assert play(exact).reason is Reason.CONTEXT
    assert exact.rooms == [8, 1]
    assert play(short).reason is Reason.CONTEXT
    assert short.rooms == [7]


def test_the_tokens_of_an_episode_add_up_to_its_budget_and_no_more():
    talker = Talker(4)
    trajectory = play(talker, max_tokens=5, max_new_tokens=6)
    assert talker.rooms == [5, 1]
    assert trajectory.reason is Reason.TOKEN_BUDGET
    assert trajectory.tokens is not None
    assert trajectory.tokens.sampled == 5


def test_default_bounds():
    bounds = {"max_new_tokens": 512, "generation_timeout_s": 300.0, "reset_timeout_s": 300.0, "step_timeout_s": 300.0}
    assert Limits() == Limits(**bounds, retries=2, max_in_flight=256, strict=False)
    assert (Limits().max_tokens, Limits().tool_timeout_s, Limits().episode_timeout_s) == (None, None, None)
    assert (Env.max_turns, Env.max_calls_per_turn, Env.max_format_errors, Env.max_concurrent) == (10, 1, 3, None)


def test_a_seed_always_draws_the_same_task():
    env = make("guess")
    numbers = []
    for seed in (0, 1, 2, 7, 2**31 - 1):
        env.reset(seed=seed)
        numbers.append(env.task.id.rpartition("/")[2])
    assert numbers == ["112002857", "259508754", "131826142", "923241373", "2079680194"]


REFUSED: dict[str, tuple[Any, ...]] = {
    "max_in_flight": (0, -1, nan, inf, 1.5, "3", None),
    "retries": (-1, nan, inf, 0.5, "3", None),
    "max_new_tokens": (0, -1, nan, inf, 1.5, "3", None),
    "max_tokens": (0, -1, nan, inf, 1.5, "3"),
    "step_timeout_s": (0, nan, -inf, "3"),
    "generation_timeout_s": (-1.0,),
}


def is_refused(make: Callable[[], Any], name: str = "") -> bool:
    try:
        make()
    except UsageError as error:
        return name in str(error)
    return False


def test_invalid_settings_are_refused():
    limits = [(name, value) for name, values in REFUSED.items() for value in values]
    assert [row for row in limits if not is_refused(partial(Limits, **dict([row])), row[0])] == []
    others: list[tuple[Callable[..., Any], dict[str, Any]]] = [
        (Backoff, {"first_s": -1.0}),
        (Backoff, {"first_s": nan}),
        (Backoff, {"most_s": inf}),
        (Backoff, {"jitter": 2.0}),
        (Failures, {"at_least": nan}),
        (Group, {"task": TASK, "seed": 0, "size": 1.5}),
        (Group, {"task": TASK, "seed": 0, "size": nan}),
    ]
    assert [row for row in others if not is_refused(partial(row[0], **row[1]))] == []
    assert Limits(max_in_flight=1, retries=0, max_tokens=1, max_new_tokens=1).max_in_flight == 1


def test_waits_before_retries_double_up_to_a_bound_and_differ():
    backoff = Backoff(first_s=1.0, most_s=4.0, jitter=0.5)
    for retry, most in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 4.0), (5_000, 4.0)):
        waits = [backoff.wait_s(retry, Random(seed)) for seed in range(50)]
        assert most / 2 <= min(waits) < max(waits) <= most


class Narrow(GuessEnv):
    """At most two at a time."""

    max_concurrent = 2


def test_as_many_episodes_run_as_both_bounds_allow():
    assert [asyncio.run(EnvPool(Narrow).at_once(number)) for number in (1, 2, 3)] == [1, 2, 2]
    assert asyncio.run(EnvPool(GuessEnv).at_once(7)) == 7
    with pytest.raises(UsageError, match="max_concurrent must be at least 1, not 0"):
        asyncio.run(EnvPool(type("None_", (GuessEnv,), {"max_concurrent": 0})).at_once(1))


def test_only_temporary_errors_of_constructors_are_retried():
    def broken(error: type[BaseException]) -> Env:
        raise error("no such thing")

    for never in (TypeError, ImportError, UsageError):
        with pytest.raises(never, match="no such thing"):
            asyncio.run(EnvPool(partial(broken, never)).at_once(3))
    for sometimes in (OSError, InfrastructureError, SystemExit):
        assert asyncio.run(EnvPool(partial(broken, sometimes)).at_once(3)) == 3


def test_an_environment_made_for_a_cancelled_episode_is_closed_in_a_thread():
    is_made, handed_over, closed_in = threading.Event(), threading.Event(), list[threading.Thread]()

    class Watched(GuessEnv):
        def __init__(self) -> None:
            super().__init__()
            is_made.set()

        def release(self) -> None:
            closed_in.append(threading.current_thread())

    async def play() -> None:
        loop = asyncio.get_running_loop()
        call_soon = loop.call_soon_threadsafe

        def logging_call(*arguments: Any, **options: Any) -> Any:
            handle = call_soon(*arguments, **options)
            if is_made.is_set():
                handed_over.set()
            return handle

        loop.call_soon_threadsafe = logging_call  # type: ignore[method-assign]
        pool = EnvPool(Watched)
        taking = asyncio.create_task(pool.take())
        for _ in range(3):
            await asyncio.sleep(0)  # start it
        handed_over.wait(HANG_S)  # the event loop has not processed it yet
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        await pool.close()

    asyncio.run(play())
    assert len(closed_in) == 1
    assert closed_in != [threading.current_thread()]
