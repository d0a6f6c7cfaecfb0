"""`Places`: the environments of one search, each with the line of play that it has reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from agentgym.base.errors import InfrastructureError, ToolError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import Action
from agentgym.core.foreign import describe
from agentgym.rollout.failures import Component
from agentgym.rollout.jobs import Job
from agentgym.rollout.limits import Limits, OutOfTime, within
from agentgym.rollout.lookahead.cost import SearchCost
from agentgym.rollout.lookahead.line import PlayLine
from agentgym.rollout.waits import Waits
from agentgym.rollout.workers.base import EnvPlace, EpisodeOpening, PlayedTurn, Workers

_T = TypeVar("_T")


class SearchWatch:
    """Names the awaited component in reports of waits and failures.

    Args:
        job: The id of the job.
        waits: The waits of the rollout.
    """

    def __init__(self, job: str, waits: Waits):
        self._job, self._waits = job, waits
        self.broken: Component | None = None
        """The first component that failed."""

    async def on(self, component: Component, key: str, work: Awaitable[_T]) -> _T:
        """Await `work`. A `ToolError` here is a bug in the environment, not the model's mistake."""
        name = f"{self._job}/{key}"
        self._waits.begin(name, component.value)
        try:
            return await work
        except asyncio.CancelledError:
            raise
        except ToolError as error:
            self.broken = self.broken or component
            raise InfrastructureError(f"a ToolError was raised outside a tool: {describe(error)}") from error
        except BaseException:
            self.broken = self.broken or component
            raise
        finally:
            self._waits.end(name)


@dataclass(eq=False)
class LookaheadEnv:
    """An environment and the line that it has played."""

    place: EnvPlace
    at: PlayLine | None = None

    def worth(self, line: PlayLine | None) -> int:
        """Return how many turns of `line` this environment has played.

        It is -1 if the episode here is over or was never started, and -2 if it is on another line, which a search may
        still continue.
        """
        if self.at is None or self.at.is_over:
            return -1
        return len(self.at.turns) if line is not None and self.at.begins(line) else -2


class Places:
    """Restores lines by replaying their actions, in the environment that has already played most of them.

    Args:
        workers: Hold the environments.
        job: The job to search.
        limits: Time limits.
        most: Largest number of environments.
        cost: Counts the turns.
        watch: Reports waits and failures.
    """

    def __init__(self, workers: Workers, job: Job, limits: Limits, most: int, cost: SearchCost, watch: SearchWatch):
        self._workers, self._job, self._limits, self._cost, self._watch = workers, job, limits, cost, watch
        self._most, self._count = most, 0
        self._free: list[LookaheadEnv] = []
        self._in_use = asyncio.Semaphore(most)

    async def take(self) -> None:
        """Take the first environment. Call it in the search's own task, which workers may have to prepare."""
        self._free.append(await self._take())

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[tuple[LookaheadEnv, EpisodeOpening]]:
        """Provide an environment at the start of an episode."""
        async with self._one(None) as held:
            yield held, await self._reset(held)

    @asynccontextmanager
    async def at(self, line: PlayLine) -> AsyncIterator[LookaheadEnv]:
        """Provide an environment that has played a line.

        Raises:
            UsageError: The replayed episode differs from the line.
        """
        async with self._one(line) as held:
            await self._restore(held, line)
            yield held

    async def step(self, held: LookaheadEnv, line: PlayLine, action: Action) -> PlayedTurn:
        """Play a turn."""
        limits = self._limits
        turn = within(held.place.step(action, limits.tool_timeout_s), limits.step_timeout_s, Reason.STEP_TIME, "a step")
        return await self._watch.on(Component.STEP, line.id, turn)

    async def interrupt(self, held: LookaheadEnv, line: PlayLine, reason: Reason) -> PlayedTurn:
        """End the episode and grade it."""
        turn = within(held.place.interrupt(reason), self._limits.step_timeout_s, Reason.STEP_TIME, "a step")
        return await self._watch.on(Component.STEP, line.id, turn)

    async def close(self) -> None:
        """Return all environments to the workers."""
        free, self._free = self._free, []
        for held in free:
            await held.place.give_back()

    async def discard(self) -> None:
        """Discard all environments that are not in use, after a failure."""
        free, self._free = self._free, []
        for held in free:
            await held.place.discard(stuck=False)

    @asynccontextmanager
    async def _one(self, line: PlayLine | None) -> AsyncIterator[LookaheadEnv]:
        async with self._in_use:
            held = await self._nearest(line)
            try:
                yield held
            except BaseException as error:
                stuck = isinstance(error, OutOfTime) and self._watch.broken is not Component.POLICY
                await held.place.discard(stuck=stuck)
                raise
            self._free.append(held)

    async def _nearest(self, line: PlayLine | None) -> LookaheadEnv:
        """Return the free environment that has played most of a line; prefer a new one to one on another line."""
        best = max(self._free, key=lambda held: held.worth(line), default=None)
        if best is None or (best.worth(line) == -2 and self._count < self._most):
            return await self._take()
        self._free.remove(best)
        return best

    async def _take(self) -> LookaheadEnv:
        self._count += 1
        try:
            work = self._workers.take(self._limits.reset_timeout_s)
            return LookaheadEnv(await self._watch.on(Component.MAKING, "new", work))
        except BaseException:
            self._count -= 1
            raise

    async def _reset(self, held: LookaheadEnv) -> EpisodeOpening:
        job, limit_s = self._job, self._limits.reset_timeout_s
        work = held.place.reset(job.seed, job.task, job.training_step)
        held.at = None
        return await self._watch.on(Component.RESET, "reset", within(work, limit_s, Reason.RESET_TIME, "a reset"))

    async def _restore(self, held: LookaheadEnv, line: PlayLine) -> None:
        done = held.worth(line)
        if done < 0:
            opening = await self._reset(held)
            _must_equal(opening.messages, line.opening.messages, 0, self._job)
        for number, turn in enumerate(line.turns[max(done, 0) :], start=max(done, 0) + 1):
            assert turn.move is not None
            played = await self.step(held, line, turn.move)
            self._cost.replayed_turns += 1
            _must_equal(played.result.observation, turn.observation, number, self._job)
        held.at = line


def _must_equal(now: object, before: object, turn: int, job: Job) -> None:
    """Raise `UsageError` if a replayed episode differs."""
    if now != before:
        raise UsageError(
            f"task {job.task.id!r} cannot be searched turn by turn: the replay of turn {turn} differs from the first "
            "time, so the environment cannot restore an earlier state; best-of-n plays whole episodes"
        )
