"""The rollout engine: one coroutine per trajectory, no barrier between turns, bounds on everything in flight.

If something around the model breaks, the episode is retried on a fresh environment and, if that keeps failing, recorded
as failed. Such a failure never becomes an observation or a reward.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from agentgym.endings import Reason
from agentgym.engine.answers import as_data
from agentgym.engine.pool import EnvPool, discard_here, is_callers_mistake
from agentgym.engine.spaces import Action
from agentgym.engine.steps import ENGINE_INFO, StepResult, reset_options
from agentgym.env import Env
from agentgym.errors import BrokenTask, InfrastructureError, ToolError, UsageError
from agentgym.foreign.errors import caught, describe, ends_work, running_task
from agentgym.foreign.tasks import contained_tasks
from agentgym.messages import Message
from agentgym.policy import ChatPolicy, Player, Policy, ScriptedPolicy, TokenPolicy
from agentgym.seat import Seat
from agentgym.task import Task
from agentgym.trajectory import Tokens, Trajectory, Turn

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """Limits of a rollout."""

    max_new_tokens: int = 512
    """Sampled tokens per turn."""
    max_tokens: int | None = None
    """Sampled tokens per episode (observations do not count); `None` means no limit."""
    turn_timeout_s: float | None = 300.0
    """Wall-clock limit on each wait for the policy or the environment; exceeding it is an infrastructure failure."""
    retries: int = 2
    """How often a failed episode is tried again on a fresh environment."""
    max_in_flight: int = 256
    """Episodes that run concurrently; fewer if the environment's `max_concurrent` is lower."""
    strict: bool = False
    """Stop at a broken task, instead of recording it as broken and going on."""

    def __post_init__(self) -> None:
        if self.max_in_flight < 1:
            raise UsageError(f"max_in_flight must be at least 1, not {self.max_in_flight}: nothing would be played")


@dataclass(frozen=True)
class Job:
    """One trajectory to make. Jobs of the same task and seed start from the same state."""

    task: Task
    seed: int
    attempt: int = 0
    training_step: int | None = None
    """The trainer's step, for environments with a curriculum; `None` outside of training."""

    @property
    def id(self) -> str:
        """The id of the trajectory."""
        return f"{self.task.id}#{self.attempt}"


@dataclass(frozen=True)
class EnvFactory:
    """Makes environments of one kind; picklable."""

    env_id: str
    kwargs: dict[str, Any]

    def __call__(self) -> Env:
        """Make a fresh environment."""
        from agentgym.registry import make

        return make(self.env_id, **self.kwargs)

    def figures(self, trajectories: Sequence[Trajectory]) -> Mapping[str, float]:
        """Return the environment's own metrics on trajectories, besides success."""
        env = self()
        try:
            return env.figures(trajectories)
        finally:
            env.close()


async def rollouts(
    jobs: Iterable[Job], policy: Policy, factory: EnvFactory, limits: Limits | None = None, pool: EnvPool | None = None
) -> AsyncGenerator[Trajectory]:
    """Run all jobs and yield trajectories as they finish, in no particular order.

    Any exception of an environment or a policy, including `SystemExit` and the like, fails one try at one episode. Only
    `UsageError` and `TaskError` propagate. A `BrokenTask` propagates only if the limits are strict; otherwise it fails
    the episodes of that task without a retry. Close the generator (`contextlib.aclosing`) to cancel the other episodes.

    Args:
        jobs: The jobs to run; consumed as slots become free, so the iterable may be endless.
        policy: Plays every episode.
        factory: Makes the environments; recorded in the trajectories so that they can be replayed.
        limits: Limits of the rollout.
        pool: Keeps environments between calls; without one they are closed at the end.
    """
    limits = limits or Limits()
    own_pool = pool is None
    pool = pool or EnvPool(factory)
    waiting = iter(jobs)
    running: set[asyncio.Task[Trajectory]] = set()
    finished: set[asyncio.Task[Trajectory]] = set()
    try:
        at_once = await pool.at_once(limits.max_in_flight)
        with contained_tasks():
            while True:
                while len(running) < at_once and (job := next(waiting, None)) is not None:
                    running.add(asyncio.create_task(_attempts(job, policy, factory, pool, limits)))
                if not running:
                    return
                finished, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                while finished:
                    yield finished.pop().result()
    finally:
        for task in running:
            task.cancel()
        # Collect all results, including those of finished tasks: asyncio would report an error that is never retrieved.
        await asyncio.gather(*running, *finished, return_exceptions=True)
        if own_pool:
            pool.close()


async def collect(
    jobs: Sequence[Job], policy: Policy, factory: EnvFactory, limits: Limits | None = None, pool: EnvPool | None = None
) -> list[Trajectory]:
    """Run all jobs and return their trajectories in the order of the jobs."""
    async with aclosing(rollouts(jobs, policy, factory, limits, pool)) as stream:
        found = {t.id: t async for t in stream}
    return [found[job.id] for job in jobs]


async def _attempts(job: Job, policy: Policy, factory: EnvFactory, pool: EnvPool, limits: Limits) -> Trajectory:
    """Run a job; retry it on a fresh environment if something around the model breaks."""
    failed: Trajectory | None = None
    for attempt in range(limits.retries + 1):
        if attempt:
            await asyncio.sleep(min(0.05 * 2 ** (attempt - 1), 1.0))
        episode = _Episode(job, policy, factory, limits)
        outcome = await _try(episode, pool)
        if isinstance(outcome, Trajectory):
            return outcome
        if isinstance(outcome, BrokenTask) and not limits.strict:
            return episode.failed(outcome, Reason.BROKEN_TASK)
        if is_callers_mistake(outcome) or (isinstance(outcome, KeyboardInterrupt) and ends_work(outcome, None)):
            raise outcome
        failed = episode.failed(outcome)
    assert failed is not None
    return failed


async def _try(episode: _Episode, pool: EnvPool) -> Trajectory | BaseException:
    """Play an episode; return its trajectory or the exception it raised.

    The episode runs in its own task, so that an environment that cancels its task is not mistaken for the caller.
    """
    playing = asyncio.create_task(caught(lambda: episode.run(pool)))
    try:
        await asyncio.wait((playing,))
    finally:
        if not playing.done():  # the caller cancels
            playing.cancel()
            await asyncio.wait((playing,))
    return asyncio.CancelledError("the episode cancelled itself") if playing.cancelled() else playing.result()


class _Episode:
    """One try at one job."""

    _env: Env

    def __init__(self, job: Job, policy: Policy, factory: EnvFactory, limits: Limits):
        self._job, self._policy, self._limits = job, policy, limits
        self._started = time.perf_counter()
        task = job.task
        self._trajectory = Trajectory(
            id=job.id,
            env_id=factory.env_id,
            env_kwargs=factory.kwargs,
            task_id=task.id,
            task_hash=task.hash,
            split=task.split,
            difficulty=task.difficulty,
            tags=task.tags,
            seed=job.seed,
            policy=policy.name,
            opening=[],
            attempt=job.attempt,
            training_step=job.training_step,
        )

    async def run(self, pool: EnvPool) -> Trajectory:
        """Play the episode to its end in an environment of `pool`."""
        try:
            self._env = await pool.take(self._limits.turn_timeout_s)
            try:
                trajectory = await self._play()
            except BaseException:
                await discard_here(self._env)
                raise
        finally:
            self._forget()
        pool.give_back(self._env)
        return trajectory

    def _forget(self) -> None:
        """Let the policy drop its state for the episode. A failure here does not change the episode's result."""
        if not isinstance(self._policy, TokenPolicy):
            return
        try:
            self._policy.release(self._job.id)
        except BaseException as error:
            if ends_work(error, running_task()):
                raise
            _log.warning("policy %s could not release %s: %s", self._policy.name, self._job.id, describe(error))

    async def _play(self) -> Trajectory:
        job, env, trajectory = self._job, self._env, self._trajectory
        options = reset_options(job.task, job.training_step)
        observation, info = await self._within(env.areset(seed=job.seed, options=options))
        trajectory.opening, trajectory.tools = observation, info["tools"]
        if isinstance(self._policy, TokenPolicy):
            await self._play_tokens(self._policy, observation, info["tools"])
        else:
            await self._play_messages(self._player(self._policy), observation)
        trajectory.seconds = time.perf_counter() - self._started
        return trajectory

    def failed(self, error: BaseException, reason: Reason = Reason.INFRASTRUCTURE) -> Trajectory:
        """Return the trajectory recorded so far, marked as failed."""
        return replace(
            self._trajectory,
            reason=reason,
            error=describe(error),
            seconds=time.perf_counter() - self._started,
        )

    def _player(self, policy: ChatPolicy | ScriptedPolicy) -> Player:
        if isinstance(policy, ScriptedPolicy):
            return policy.begin(self._env)
        return policy.player(Seat.at(self._env, self._job.seed + self._job.attempt))

    async def _play_messages(self, player: Player, observation: list[Message]) -> None:
        while self._trajectory.reason is None:
            action = await self._within(self._asked(player.act(observation)))
            if action is None:
                self._record(None, await self._within(self._env.ainterrupt(Reason.GAVE_UP)))
                return
            observation = (await self._step(action)).observation

    async def _play_tokens(self, policy: TokenPolicy, observation: list[Message], tools: list[dict[str, Any]]) -> None:
        tokens = self._trajectory.tokens = Tokens(prompt_ids=policy.codec.open(observation, tools))
        while self._trajectory.reason is None:
            room = self._room(policy, tokens)
            if isinstance(room, Reason):
                self._record(None, await self._within(self._env.ainterrupt(room)))
                return
            history = tokens.prompt_ids + tokens.completion_ids
            said = await self._within(self._asked(policy.generate(history, room, self._job.id)))
            if not said.ids:
                raise InfrastructureError(f"policy {policy.name!r} sampled nothing, not even the end of its turn")
            span = tokens.append_sampled(said.ids, said.logprobs, said.version)
            result = await self._step(policy.codec.decode(said.ids), span)
            if self._trajectory.reason is None:
                tokens.append_observed(policy.codec.extend(result.observation, said.ids[-1]))

    def _room(self, policy: TokenPolicy, tokens: Tokens) -> int | Reason:
        """Return how many tokens the next turn may have, or the reason why it may have none."""
        room = min(self._limits.max_new_tokens, policy.context - len(tokens))
        if room < 1:
            return Reason.CONTEXT
        if self._limits.max_tokens is not None:
            room = min(room, self._limits.max_tokens - tokens.sampled)
        return room if room > 0 else Reason.TOKEN_BUDGET

    async def _step(self, action: Action, span: tuple[int, int] | None = None) -> StepResult:
        result = await self._within(self._env.astep(action))
        self._record(action, result, span)
        return result

    def _record(self, action: Action | None, result: StepResult, span: tuple[int, int] | None = None) -> None:
        trajectory = self._trajectory
        trajectory.turns.append(Turn(action, result.observation, result.info["rewards"], result.reward, span))
        trajectory.reason = self._env.reason
        trajectory.counts = result.info.get("counts", {})
        if trajectory.reason is not None:
            told = {str(name): as_data(value) for name, value in result.info.items() if name not in ENGINE_INFO}
            trajectory.details = told

    async def _asked(self, question: Any) -> Any:
        """Await the policy. Whatever it raises counts as infrastructure, except for the caller's mistakes."""
        task = running_task()
        try:
            return await question
        except (UsageError, InfrastructureError, TimeoutError):
            raise
        except BaseException as error:
            if ends_work(error, task):
                raise
            raise InfrastructureError(f"policy {self._policy.name!r}: {describe(error)}") from error

    async def _within(self, work: Any) -> Any:
        """Await with a time limit. A `ToolError` that gets here is an author's bug, not the model's mistake."""
        try:
            async with asyncio.timeout(self._limits.turn_timeout_s):
                result = await work
        except ToolError as error:
            raise InfrastructureError(f"a ToolError was raised outside of a tool: {describe(error)}") from error
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise asyncio.CancelledError  # the code inside was cancelled but swallowed it
        return result
