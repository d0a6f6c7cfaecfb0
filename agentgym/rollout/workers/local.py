"""Environments of this process. Blocking ones run in threads, or on the event loop itself."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from agentgym.core.endings import AnyReason, Reason
from agentgym.core.engine.spaces import Action
from agentgym.core.engine.steps import reset_options
from agentgym.core.engine.threads import blocks
from agentgym.core.env import Env
from agentgym.core.foreign import apart
from agentgym.core.policy import Player, ScriptedPolicy
from agentgym.core.task import Task
from agentgym.rollout.limits import watched
from agentgym.rollout.workers.base import EnvPlace, EpisodeOpening, PlayedTurn, Workers
from agentgym.rollout.workers.pool import EnvPool, discard

_T = TypeVar("_T")


class LocalWorkers:
    """Environments of this process.

    Args:
        pool: Makes and keeps the environments.
        inline: Run blocking environments on the event loop: one at a time, for debugging. No time limit can stop them.
    """

    def __init__(self, pool: EnvPool, *, inline: bool = False):
        self._pool, self._inline = pool, inline

    async def at_once(self, most: int, limit_s: float | None = None) -> int:
        """Return how many episodes can run concurrently, at most `most`."""
        return await self._pool.at_once(most, limit_s)

    async def take(self, limit_s: float | None) -> EnvPlace:
        """Return a place with an environment."""
        env = await self._pool.take(limit_s)
        if self._inline:
            blocks.set(True)  # in the episode's own task
        return LocalPlace(env, self._pool)

    def isolated(self) -> Workers:
        """Return these workers: they are one process."""
        return self

    async def close(self) -> None:
        """Close the idle environments."""
        await self._pool.close()


class LocalPlace:
    """An environment of this process."""

    def __init__(self, env: Env, pool: EnvPool):
        self._env, self._pool = env, pool

    async def reset(self, seed: int, task: Task, training_step: int | None) -> EpisodeOpening:
        """Start an episode."""
        env = self._env
        messages, info = await _of(env, env.areset(seed=seed, options=reset_options(task, training_step)))
        limits = env.max_calls_per_turn, env.max_turns
        return EpisodeOpening(messages, info["tools"], env.dialect, *limits, env.unrepeatable)

    async def step(self, action: Action, tool_limit_s: float | None) -> PlayedTurn:
        """Play a turn."""
        env = self._env
        result = await watched(_of(env, env.astep(action)), lambda: env.running_tool, tool_limit_s, Reason.TOOL_TIME)
        return PlayedTurn(result, env.reason, env.step_times)

    async def interrupt(self, reason: AnyReason) -> PlayedTurn:
        """End the episode and grade it."""
        result = await _of(self._env, self._env.ainterrupt(reason))
        return PlayedTurn(result, self._env.reason, self._env.step_times)

    async def script(self, policy: ScriptedPolicy) -> Player:
        """Return the player of a script."""
        return policy.begin(self._env)

    async def give_back(self) -> None:
        """Return the environment for use by another episode."""
        self._pool.give_back(self._env)

    async def discard(self, *, stuck: bool) -> None:
        """Close the environment. If it is stuck, do not wait for that."""
        if stuck:
            self._pool.close_later(self._env)
        else:
            await discard(self._env)


async def _of(env: Env, work: Coroutine[Any, Any, _T]) -> _T:
    """Await an environment. The code of an asynchronous one may ignore its cancellation."""
    return await (apart(work) if env.is_async else work)
