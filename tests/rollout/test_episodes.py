from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from agentgym.endings import Ending, Reason
from agentgym.env import Env
from agentgym.envs.guess import GuessEnv
from agentgym.errors import InfrastructureError, ToolError, UsageError
from agentgym.messages import Message, ToolCall, text_of
from agentgym.policy import EndEpisode, FunctionPolicy, RandomPolicy, ScriptedPolicy, SilentPolicy
from agentgym.rewards import OUTCOME
from agentgym.rollout import Job, Limits, collect, rollouts
from agentgym.rollout.workers.local import LocalWorkers
from agentgym.rollout.workers.pool import EnvPool
from agentgym.seat import Seat
from agentgym.toolset import tool
from agentgym.trajectory import Trajectory
from tests.rollout_cases import Factory, jobs, run


class Watched(GuessEnv):
    """The guessing game; keeps count of its instances and breaks where it is told to."""

    made: list[Watched]

    def __init__(self, breaks: Callable[[Watched], None] = lambda env: None, **kwargs: Any):
        super().__init__(**kwargs)
        self.breaks, self.closed = breaks, 0
        self.made.append(self)

    @tool
    def guess(self, number: int) -> str:
        """Guess.

        Args:
            number: Your guess.
        """
        self.breaks(self)
        return super().guess(number)

    def release(self) -> None:
        self.closed += 1


def watched(breaks: Callable[[Watched], None] = lambda env: None) -> tuple[Factory, list[Watched]]:
    """A factory, and the list of what it has made."""
    made: list[Watched] = []
    kind = type("Watched", (Watched,), {"made": made})
    return Factory(build=lambda **kwargs: kind(breaks, **kwargs)), made


# Infrastructure and mistakes.


def test_a_broken_environment_is_replaced_by_a_fresh_one():
    def first_breaks(env: Watched) -> None:
        if env is env.made[0]:
            raise OSError("disk on fire")

    factory, made = watched(first_breaks)
    (trajectory,) = run(jobs(1), ScriptedPolicy(), factory)
    assert trajectory.success
    assert trajectory.error is None
    assert len(made) == 2
    assert all(env.closed for env in made)


def test_what_keeps_breaking_becomes_a_failed_trajectory_and_is_never_rewarded():
    def always(env: Watched) -> None:
        raise OSError("disk on fire")

    factory, made = watched(always)
    (trajectory,) = run(jobs(1), ScriptedPolicy(), factory, retries=2)
    assert (trajectory.ending, trajectory.reason) == (Ending.FAILED, Reason.INFRASTRUCTURE)
    assert "disk on fire" in str(trajectory.error)
    assert not trajectory.success
    assert trajectory.reward == 0.0
    assert not any("disk" in text_of(message) for message in trajectory.messages)
    assert len(made) == 3


def test_an_environment_that_cannot_be_made_is_an_infrastructure_failure():
    def broken(**kwargs: Any) -> Env:
        raise InfrastructureError("no container")

    (trajectory,) = run(jobs(1), ScriptedPolicy(), Factory(build=broken), retries=1)
    assert trajectory.reason is Reason.INFRASTRUCTURE
    assert trajectory.opening == []


def test_one_failing_job_does_not_affect_the_others():
    def one_task(env: Watched) -> None:
        if env.task.id == "guess/train/3":
            raise RuntimeError("unlucky")

    factory, _ = watched(one_task)
    found = run(jobs(8), ScriptedPolicy(), factory, retries=0)
    assert [t.success for t in found] == [i != 3 for i in range(8)]
    assert found[3].reason is Reason.INFRASTRUCTURE


def test_a_policy_that_breaks_is_tried_again_and_then_recorded():
    asked: list[int] = []

    def ask(conversation: list[Message]) -> str:
        asked.append(1)
        raise KeyError("choices")

    (trajectory,) = run(jobs(1), FunctionPolicy("endpoint", ask), retries=1)
    assert trajectory.reason is Reason.INFRASTRUCTURE
    assert "endpoint" in str(trajectory.error)
    assert len(asked) == 2


def test_a_callers_mistake_comes_through():
    def ask(conversation: list[Message]) -> str:
        raise UsageError("no such model")

    with pytest.raises(UsageError, match="no such model"):
        run(jobs(2), FunctionPolicy("endpoint", ask))


def test_a_models_mistake_stays_an_observation():
    def ask(conversation: list[Message]) -> Any:
        return GuessEnv().dialect.render("", [ToolCall("guess", {"number": -5})], GuessEnv.tools)

    (trajectory,) = run(jobs(1), FunctionPolicy("wrong", ask))
    assert trajectory.reason is Reason.MAX_TURNS
    assert "-5 is not" in text_of(trajectory.turns[0].observation[0])
    assert trajectory.counts["tool_errors"] == GuessEnv.max_turns


def test_a_tool_error_outside_of_a_tool_is_an_authors_slip():
    class Slipping(GuessEnv):
        def start(self, task: Any) -> str:
            raise ToolError("oops")

    (trajectory,) = run(jobs(1), SilentPolicy(), Factory(build=Slipping), retries=0)
    assert trajectory.reason is Reason.INFRASTRUCTURE


def test_giving_up_ends_the_episode_and_is_graded():
    (trajectory,) = run(jobs(1), FunctionPolicy("quitter", lambda conversation: None))
    assert (trajectory.ending, trajectory.reason) == (Ending.TERMINATED, Reason.GAVE_UP)
    assert trajectory.turns[-1].action is None
    assert trajectory.turns[-1].rewards[OUTCOME] == 0.0


# Bounds.


def test_a_slow_environment_is_bounded():
    factory, made = watched(lambda env: time.sleep(0.5))
    (trajectory,) = run(jobs(1), ScriptedPolicy(), factory, step_timeout_s=0.05, retries=0)
    assert (trajectory.reason, trajectory.component) == (Reason.STEP_TIME, "step")
    assert "a step took longer than its limit of 0.05 s" in str(trajectory.error)
    assert made[0].closed


def test_a_slow_policy_is_bounded():
    async def ask(conversation: list[Message]) -> str:
        await asyncio.sleep(3600)
        return ""

    (trajectory,) = run(jobs(1), FunctionPolicy("slow", ask), generation_timeout_s=0.05, retries=0)
    assert trajectory.reason is Reason.INFRASTRUCTURE


@pytest.mark.parametrize("reason", [Reason.CONTEXT, Reason.TOKEN_BUDGET, Reason.GAVE_UP, Reason.GENERATION_TIME])
def test_a_policy_can_say_why_it_ends_an_episode(reason: Reason):
    def ask(messages: list[Message]) -> str:
        if len(messages) > 2:
            raise EndEpisode(reason)
        return "hm"

    (trajectory,) = run(jobs(1), FunctionPolicy("leaver", ask), retries=0)
    assert (trajectory.reason, trajectory.ending, trajectory.failed) == (reason, reason.ending, False)
    assert [turn.action for turn in trajectory.turns] == ["hm", None]


@pytest.mark.parametrize("reason", [Reason.SOLVED, Reason.INFRASTRUCTURE, Reason.TIME, "context?"])
def test_a_policy_has_no_say_in_other_endings(reason: Reason):
    with pytest.raises(UsageError, match="a policy cannot end an episode as"):
        EndEpisode(reason)


class Counting:
    """A policy that sees how many episodes run at once. The first ones wait for each other until `room` of them do."""

    name = "counting"

    def __init__(self, room: int):
        self.now = self.most = 0
        self.room, self.full = room, asyncio.Event()

    def player(self, seat: Seat) -> Any:
        return self

    async def act(self, observation: list[Message]) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now >= self.room:
            self.full.set()
        await asyncio.wait_for(self.full.wait(), 60)
        await asyncio.sleep(0.005)
        self.now -= 1


def test_no_more_episodes_run_than_allowed_and_all_room_is_used():
    policy = Counting(3)
    run(jobs(20), policy, max_in_flight=3)
    assert policy.most == 3


def test_no_more_episodes_run_than_the_environment_can_hold():
    policy = Counting(2)
    few = type("Few", (Watched,), {"made": [], "max_concurrent": 2})
    run(jobs(12), policy, Factory(build=lambda **kwargs: few(lambda env: None, **kwargs)), max_in_flight=8)
    assert policy.most == 2


def test_room_for_no_episode_is_refused():
    with pytest.raises(UsageError, match="max_in_flight must be at least 1, not 0"):
        Limits(max_in_flight=0)
    none = type("NoRoom", (Watched,), {"made": [], "max_concurrent": 0})
    with pytest.raises(UsageError, match=r"NoRoom\.max_concurrent must be at least 1, not 0"):
        run(jobs(1), ScriptedPolicy(), Factory(build=lambda **kwargs: none(lambda env: None, **kwargs)))


def test_environments_are_used_again_and_closed_at_the_end():
    factory, made = watched()
    run(jobs(12), ScriptedPolicy(), factory, max_in_flight=2)
    assert len(made) <= 2
    assert all(env.closed == 1 for env in made)


def test_given_workers_keep_their_environments():
    factory, made = watched()

    async def play() -> None:
        workers = LocalWorkers(EnvPool(factory))
        for _ in range(2):
            await collect(jobs(2), ScriptedPolicy(), factory, Limits(max_in_flight=1), workers)
        assert [env.closed for env in made] == [0]
        await workers.close()

    asyncio.run(play())
    assert [env.closed for env in made] == [1]


def test_jobs_are_taken_as_room_becomes_free():
    taken: list[int] = []

    def endless():
        for index in range(10**9):
            taken.append(index)
            yield Job(GuessEnv.default_tasks().get("train", index), seed=index)

    async def some() -> list[Trajectory]:
        stream = rollouts(endless(), ScriptedPolicy(), Factory(), Limits(max_in_flight=4))
        found = [await anext(stream) for _ in range(5)]
        await stream.aclose()  # type: ignore[attr-defined]
        return found

    assert len(asyncio.run(some())) == 5
    assert len(taken) < 20


def test_cancelling_closes_every_environment():
    factory, made = watched()

    async def forever(conversation: list[Message]) -> str:
        await asyncio.sleep(3600)
        return ""

    async def cancelled() -> None:
        work = asyncio.create_task(collect(jobs(5), FunctionPolicy("slow", forever), factory))
        while len(made) < 5:
            await asyncio.sleep(0.01)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    asyncio.run(cancelled())
    assert [env.closed for env in made] == [1] * 5


# Same work, same record.


def test_results_do_not_depend_on_order_or_company():
    forwards = run(jobs(6, attempts=2), RandomPolicy(), max_in_flight=12)
    backwards = run(jobs(6, attempts=2)[::-1], RandomPolicy(), max_in_flight=1)[::-1]
    for one, other in zip(forwards, backwards, strict=True):
        one.seconds = other.seconds = 0.0
        assert one == other


def test_a_group_starts_from_the_same_state_and_random_attempts_differ():
    found = run(jobs(1, attempts=4), RandomPolicy())
    assert all(t.opening == found[0].opening for t in found)
    assert len({str(t.turns[0].action) for t in found}) > 1
    assert [t.attempt for t in found] == [0, 1, 2, 3]
