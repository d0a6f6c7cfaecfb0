"""`Places`: the environments that one search uses, each at some line of play."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from agentgym.endings import Reason
from agentgym.engine.spaces import Action
from agentgym.errors import InfrastructureError, ToolError, UsageError
from agentgym.foreign.errors import describe
from agentgym.lookahead.cost import Cost
from agentgym.lookahead.line import Line
from agentgym.rollout.deadlines import OutOfTime, within
from agentgym.rollout.failures import Component
from agentgym.rollout.jobs import Job
from agentgym.rollout.limits import Limits
from agentgym.rollout.waits import Waits
from agentgym.rollout.workers.base import Opening, Place, Played, Workers

_T = TypeVar("_T")


class Watch:
    """Names what is awaited, in reports of waits and of failures.

    Args:
        job: The id of the job.
        waits: The waits of the rollout.
    """

    def __init__(self, job: str, waits: Waits):
        self._job, self._waits = job, waits
        self.broken: Component | None = None
        """What broke first."""

    async def on(self, component: Component, key: str, work: Awaitable[_T]) -> _T:
        """Await `work`. A `ToolError` that gets here is an author's bug, not the model's mistake."""
        name = f"{self._job}/{key}"
        self._waits.begin(name, component.value)
        try:
            return await work
        except asyncio.CancelledError:
            raise
        except ToolError as error:
            self.broken = self.broken or component
            raise InfrastructureError(f"a ToolError was raised outside of a tool: {describe(error)}") from error
        except BaseException:
            self.broken = self.broken or component
            raise
        finally:
            self._waits.end(name)


@dataclass(eq=False)
class Held:
    """An environment, and the line that it has played."""

    place: Place
    at: Line | None = None

    def worth(self, line: Line | None) -> int:
        """Return how many turns of a line are played here already; negative if none, -2 if others may go on here."""
        if self.at is None or self.at.is_over:
            return -1
        return len(self.at.turns) if line is not None and self.at.begins(line) else -2


class Places:
    """Restores lines by playing their actions again, from the nearest environment that has played a part of them.

    Args:
        workers: Hold the environments.
        job: What is played.
        limits: Limits of each wait.
        most: Largest number of environments.
        cost: Counts the turns.
        watch: Names the waits.
    """

    def __init__(self, workers: Workers, job: Job, limits: Limits, most: int, cost: Cost, watch: Watch):
        self._workers, self._job, self._limits, self._cost, self._watch = workers, job, limits, cost, watch
        self._most, self._count = most, 0
        self._free: list[Held] = []
        self._in_use = asyncio.Semaphore(most)

    async def take(self) -> None:
        """Take the first environment. Called in the search's own task, where workers may prepare that task."""
        self._free.append(await self._taken())

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[tuple[Held, Opening]]:
        """Provide an environment at the start of an episode."""
        async with self._one(None) as held:
            yield held, await self._reset(held)

    @asynccontextmanager
    async def at(self, line: Line) -> AsyncIterator[Held]:
        """Provide an environment that has played a line.

        Raises:
            UsageError: The episode does not come back the same.
        """
        async with self._one(line) as held:
            await self._restore(held, line)
            yield held

    async def step(self, held: Held, line: Line, action: Action) -> Played:
        """Play a turn."""
        limits = self._limits
        turn = within(held.place.step(action, limits.tool_timeout_s), limits.step_timeout_s, Reason.STEP_TIME, "a step")
        return await self._watch.on(Component.STEP, line.id, turn)

    async def interrupt(self, held: Held, line: Line, reason: Reason) -> Played:
        """End the episode and grade it."""
        turn = within(held.place.interrupt(reason), self._limits.step_timeout_s, Reason.STEP_TIME, "a step")
        return await self._watch.on(Component.STEP, line.id, turn)

    async def close(self) -> None:
        """Give all environments back."""
        free, self._free = self._free, []
        for held in free:
            await held.place.give_back()

    async def discard(self) -> None:
        """Get rid of all environments that are not in use, after something broke."""
        free, self._free = self._free, []
        for held in free:
            await held.place.discard(stuck=False)

    @asynccontextmanager
    async def _one(self, line: Line | None) -> AsyncIterator[Held]:
        async with self._in_use:
            held = await self._chosen(line)
            try:
                yield held
            except BaseException as error:
                stuck = isinstance(error, OutOfTime) and self._watch.broken is not Component.POLICY
                await held.place.discard(stuck=stuck)
                raise
            self._free.append(held)

    async def _chosen(self, line: Line | None) -> Held:
        """Return the free environment nearest to a line; a new one rather than one at another line."""
        best = max(self._free, key=lambda held: held.worth(line), default=None)
        if best is None or (best.worth(line) == -2 and self._count < self._most):
            return await self._taken()
        self._free.remove(best)
        return best

    async def _taken(self) -> Held:
        self._count += 1
        try:
            work = self._workers.take(self._limits.reset_timeout_s)
            return Held(await self._watch.on(Component.MAKING, "new", work))
        except BaseException:
            self._count -= 1
            raise

    async def _reset(self, held: Held) -> Opening:
        job, limit_s = self._job, self._limits.reset_timeout_s
        work = held.place.reset(job.seed, job.task, job.training_step)
        held.at = None
        return await self._watch.on(Component.RESET, "reset", within(work, limit_s, Reason.RESET_TIME, "a reset"))

    async def _restore(self, held: Held, line: Line) -> None:
        done = held.worth(line)
        if done < 0:
            opening = await self._reset(held)
            _must_equal(opening.messages, line.opening.messages, 0, self._job)
        for number, turn in enumerate(line.turns[max(done, 0) :], start=max(done, 0) + 1):
            assert turn.action is not None
            played = await self.step(held, line, turn.action)
            self._cost.replayed_turns += 1
            _must_equal(played.result.observation, turn.observation, number, self._job)
        held.at = line


def _must_equal(now: object, before: object, turn: int, job: Job) -> None:
    """Raise `UsageError` if an episode played again differs."""
    if now != before:
        raise UsageError(
            f"task {job.task.id!r} cannot be searched turn by turn: played again, turn {turn} differs from before, so "
            "the environment does not come back to an earlier state; best-of-n plays whole episodes"
        )
