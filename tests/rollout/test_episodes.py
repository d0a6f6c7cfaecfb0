from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agentgym.base.errors import ToolError, UsageError
from agentgym.core.endings import Ending, Reason
from agentgym.core.messages import Message, ToolCall, text_of
from agentgym.core.policy import EndEpisode, FunctionPolicy, RandomPolicy, ScriptedPolicy, SilentPolicy
from agentgym.core.rewards import OUTCOME
from agentgym.core.toolset import tool
from agentgym.core.trajectory import Trajectory
from agentgym.envs.guess import GuessEnv
from agentgym.rollout import Job, Limits, rollouts
from agentgym.rollout.streams import play_jobs
from agentgym.rollout.workers.local import LocalWorkers
from agentgym.rollout.workers.pool import EnvPool
from tests.rollout_cases import Factory, jobs, run
from tests.waiting import HANG_S, eventually


class Watched(GuessEnv):
    """The guessing game; records its instances, and calls `breaks` in each turn."""

    envs: list[Watched]

    def __init__(self, breaks: Callable[[Watched], object] = lambda env: None, **kwargs: Any):
        super().__init__(**kwargs)
        self.breaks, self.closed = breaks, 0
        self.envs.append(self)

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


def watched(breaks: Callable[[Watched], object] = lambda env: None) -> tuple[Factory, list[Watched]]:
    """Return a factory, and the list of its environments."""
    envs: list[Watched] = []
    kind = type("Watched", (Watched,), {"envs": envs})
    return Factory(build=lambda **kwargs: kind(breaks, **kwargs)), envs


# Failures and mistakes.


def test_an_environment_that_keeps_failing_makes_a_failed_trajectory_without_reward():
    def always(env: Watched) -> None:
        raise OSError("disk on fire")

    factory, envs = watched(always)
    (trajectory,) = run(jobs(1), ScriptedPolicy(), factory, retries=2)
    assert (trajectory.ending, trajectory.reason) == (Ending.FAILED, Reason.INFRASTRUCTURE)
    assert "disk on fire" in str(trajectory.error)
    assert not trajectory.success
    assert trajectory.reward == 0.0
    assert not any("disk" in text_of(message) for message in trajectory.messages)
    assert [env.closed for env in envs] == [1, 1, 1]


def test_a_models_mistake_stays_an_observation():
    def ask(conversation: list[Message]) -> Any:
        return GuessEnv().dialect.render("", [ToolCall("guess", {"number": -5})], GuessEnv.tools)

    (trajectory,) = run(jobs(1), FunctionPolicy("wrong", ask))
    assert trajectory.reason is Reason.MAX_TURNS
    assert "-5 is not" in text_of(trajectory.turns[0].observation[0])
    assert trajectory.counts["tool_errors"] == GuessEnv.max_turns


def test_a_tool_error_outside_a_tool_is_an_infrastructure_failure():
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
    go_on = threading.Event()
    factory, envs = watched(lambda env: [go_on.wait(HANG_S)])
    (trajectory,) = run(jobs(1), ScriptedPolicy(), factory, step_timeout_s=0.05, retries=0)
    assert (trajectory.reason, trajectory.component) == (Reason.STEP_TIME, "step")
    assert "a step took longer than its limit of 0.05 s" in str(trajectory.error)
    go_on.set()
    assert eventually(lambda: bool(envs[0].closed))


def test_a_policy_may_end_an_episode_for_its_own_reasons_only():
    def ask(messages: list[Message]) -> str:
        if len(messages) > 2:
            raise EndEpisode(reason)
        return "hm"

    for reason in (Reason.CONTEXT, Reason.TOKEN_BUDGET, Reason.GAVE_UP, Reason.GENERATION_TIME):
        (trajectory,) = run(jobs(1), FunctionPolicy("leaver", ask), retries=0)
        assert (trajectory.reason, trajectory.ending, trajectory.failed) == (reason, reason.ending, False)
        assert [turn.action for turn in trajectory.turns] == ["hm", None]
    for other in (Reason.SOLVED, Reason.INFRASTRUCTURE, Reason.TIME, "context?"):
        with pytest.raises(UsageError, match="a policy cannot end an episode as"):
            EndEpisode(other)  # pyright: ignore[reportArgumentType]


def test_environments_are_used_again_and_closed_at_the_end():
    factory, envs = watched()
    run(jobs(12), ScriptedPolicy(), factory, max_in_flight=2)
    assert len(envs) <= 2
    assert all(env.closed == 1 for env in envs)


def test_the_callers_workers_keep_their_environments():
    factory, envs = watched()

    async def play() -> None:
        workers = LocalWorkers(EnvPool(factory))
        for _ in range(2):
            await play_jobs(jobs(2), ScriptedPolicy(), factory, Limits(max_in_flight=1), workers)
        assert [env.closed for env in envs] == [0]
        await workers.close()

    asyncio.run(play())
    assert [env.closed for env in envs] == [1]


def test_jobs_start_as_slots_become_free():
    indices: list[int] = []

    def endless():
        for index in range(10**9):
            indices.append(index)
            yield Job(GuessEnv.default_tasks().get("train", index), seed=index)

    async def begin() -> list[Trajectory]:
        stream = rollouts(endless(), ScriptedPolicy(), Factory(), Limits(max_in_flight=4))
        first = [await anext(stream) for _ in range(5)]
        await stream.aclose()  # type: ignore[attr-defined]
        return first

    assert len(asyncio.run(begin())) == 5
    assert len(indices) < 20


# Reproducibility.


def test_results_do_not_depend_on_the_other_jobs_or_their_order():
    forwards = run(jobs(6, attempts=2), RandomPolicy(), max_in_flight=12)
    backwards = run(jobs(6, attempts=2)[::-1], RandomPolicy(), max_in_flight=1)[::-1]
    for first, other in zip(forwards, backwards, strict=True):
        first.seconds = other.seconds = 0.0
        assert first == other


def test_a_group_starts_from_the_same_state_and_random_attempts_differ():
    trajectories = run(jobs(1, attempts=4), RandomPolicy())
    assert all(t.opening == trajectories[0].opening for t in trajectories)
    assert len({str(t.turns[0].action) for t in trajectories}) > 1
    assert [t.attempt for t in trajectories] == [0, 1, 2, 3]
