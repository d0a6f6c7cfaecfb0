"""One attempt at one job: plays an episode and records it."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from math import inf
from typing import Protocol, TypeVar

from agentgym.base.errors import BrokenTask, InfrastructureError, ScriptFailed, ToolError
from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import Action, Finish, finish_of, finished
from agentgym.core.engine.steps import details_in
from agentgym.core.foreign import describe, ends_work, running_task
from agentgym.core.messages import Message
from agentgym.core.policy import ChatPolicy, EndEpisode, Player, Policy, ScriptedPolicy, Seat, TokenPolicy
from agentgym.core.timing import TurnClock
from agentgym.core.trajectory import Trajectory, Turn
from agentgym.rollout.conversation import Conversation, acted, asked, turn_limit, usage_of
from agentgym.rollout.failures import Component, WorkerLost
from agentgym.rollout.jobs import EnvFactory, Job
from agentgym.rollout.limits import Limits, OutOfTime, within
from agentgym.rollout.waits import Waits
from agentgym.rollout.workers.base import EnvPlace, EpisodeOpening, PlayedTurn, Workers


class Listener(Protocol):
    """Listens to one episode."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts to add to `Trajectory.counts`."""
        ...

    @property
    def usage(self) -> Mapping[str, float]:
        """Usage to add to `Trajectory.usage`."""
        ...

    async def after(self, opening: EpisodeOpening, action: Action, observation: list[Message]) -> list[Message]:
        """Return the messages that follow the observation of a turn that did not end the episode."""
        ...


_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Episode:
    """One attempt at one job."""

    _place: EnvPlace
    _opening: EpisodeOpening

    def __init__(
        self,
        job: Job,
        policy: Policy,
        factory: EnvFactory,
        limits: Limits,
        waits: Waits,
        *,
        name: str | None = None,
        listener: Listener | None = None,
    ):
        self._job, self._policy, self._limits, self._waits = job, policy, limits, waits
        # Either the sampler or the speaker plays. This check is slow, so it is done once.
        self._sampler, self._speaker = (policy, None) if isinstance(policy, TokenPolicy) else (None, policy)
        self._started = time.perf_counter()
        self._clock = TurnClock(self._started)
        self._deadline = inf
        self._component = Component.MAKING
        self._listener = listener
        self._trajectory = begun(job, name or policy.name, factory)

    async def run(self, workers: Workers) -> Trajectory:
        """Play the episode to its end in one of the workers' environments."""
        try:
            # `take` enforces the limit itself: only it knows when the work starts.
            self._place = await self._waiting(Component.MAKING, workers.take(self._limits.reset_timeout_s))
            try:
                trajectory = await self._play()
            except BaseException as error:
                await self._place.discard(stuck=self._is_stuck(error))
                raise
        finally:
            self._forget()
            self._waits.end(self._job.id)
        await self._place.give_back()
        return trajectory

    def failed(self, error: BaseException) -> Trajectory:
        """Return the trajectory recorded so far, marked as failed."""
        return replace(
            self._trajectory,
            reason=reason_of(error),
            component=self.component_of(error).value,
            error=describe(error),
            seconds=time.perf_counter() - self._started,
        )

    def component_of(self, error: BaseException) -> Component:
        """Return the component that failed."""
        if isinstance(error, BrokenTask):
            return Component.TASK
        if isinstance(error, ScriptFailed):
            return Component.SCRIPT
        return Component.WORKER if isinstance(error, WorkerLost) else self._component

    def _is_stuck(self, error: BaseException) -> bool:
        """Whether the environment did not return in time. If the policy did not, the environment is idle."""
        return isinstance(error, OutOfTime) and self._component is not Component.POLICY

    def _forget(self) -> None:
        """Let the policy drop its state for the episode. A failure here does not change the episode's result."""
        if self._sampler is None:
            return
        try:
            self._sampler.release(self._job.id)
        except BaseException as error:
            if ends_work(error, running_task()):
                raise
            _log.warning("policy %s could not release %s: %s", self._sampler.name, self._job.id, describe(error))

    async def _play(self) -> Trajectory:
        job, trajectory, limits = self._job, self._trajectory, self._limits
        if limits.episode_timeout_s is not None:
            self._deadline = time.monotonic() + limits.episode_timeout_s
        opening = await self._env(
            Component.RESET,
            self._place.reset(job.seed, job.task, job.training_step),
            limits.reset_timeout_s,
            Reason.RESET_TIME,
        )
        self._opening = opening
        trajectory.opening, trajectory.tools = opening.messages, opening.tools
        if self._sampler is not None:
            await self._play_tokens(self._sampler, opening)
        if self._speaker is not None:
            player = await self._player(self._speaker, opening)
            try:
                await self._play_messages(player, opening.messages)
            finally:
                trajectory.usage = usage_of(player, self._policy.name)
        trajectory.seconds = time.perf_counter() - self._started
        if self._listener is not None:
            trajectory.counts = {**trajectory.counts, **self._listener.counts}
            trajectory.usage = {**trajectory.usage, **self._listener.usage}
        return trajectory

    async def _player(self, speaker: ChatPolicy | ScriptedPolicy, opening: EpisodeOpening) -> Player:
        self._component = Component.POLICY
        if isinstance(speaker, ScriptedPolicy):
            return await self._place.script(speaker)
        seed = self._job.seed + self._job.attempt
        return speaker.player(Seat.of(opening.tools, opening.dialect, seed, opening.max_calls))

    async def _play_messages(self, player: Player, observation: list[Message]) -> None:
        limit_s = self._limits.generation_timeout_s
        while self._trajectory.reason is None:
            if self._is_over:
                await self._interrupt(Reason.TIME)
                return
            self._clock.ask()
            question = asked(acted(player, observation, self._policy.name), self._policy.name)
            turn = within(question, limit_s, Reason.INFRASTRUCTURE, "a turn of the policy")
            try:
                action = await self._waiting(Component.POLICY, turn)
            except EndEpisode as end:
                await self._interrupt(end.reason)
                return
            if action is None:
                await self._interrupt(Reason.GAVE_UP)
                return
            observation = (await self._step(action)).result.observation

    async def _play_tokens(self, policy: TokenPolicy, opening: EpisodeOpening) -> None:
        self._component = Component.POLICY
        conversation = Conversation(policy, self._limits)
        self._trajectory.tokens = conversation.begin(opening.messages, opening.tools)
        while self._trajectory.reason is None:
            max_tokens = Reason.TIME if self._is_over else conversation.tokens_left()
            if isinstance(max_tokens, Reason):
                await self._interrupt(max_tokens)
                return
            async with self._waits.turns.turn() as held_s:
                self._deadline += held_s
                limit_s, late = turn_limit(self._limits, self._deadline - time.monotonic())
                self._clock.ask()
                turn = conversation.sample(max_tokens, self._job.id, limit_s)
                generation = await self._waiting(Component.POLICY, turn)
            self._clock.queued(generation.queued_s)
            text, span = conversation.say(generation)
            if generation.finish == "time":
                await self._end_late(text, span, late)
                return
            played = await self._step(text, span, generation.finish)
            if self._trajectory.reason is None:
                self._component = Component.POLICY
                conversation.hear(played.result.observation)

    async def _end_late(self, text: str, span: tuple[int, int], reason: Reason) -> None:
        """End the episode at a turn that took too long, and keep its tokens, so that short answers are not favoured."""
        self._record(text, await self._interrupted(reason), span, finish="time")

    @property
    def _is_over(self) -> bool:
        """Whether the episode has reached its time limit."""
        return time.monotonic() >= self._deadline

    async def _step(
        self, action: Action, span: tuple[int, int] | None = None, finish: Finish | None = None
    ) -> PlayedTurn:
        limits = self._limits
        self._clock.step()
        move = action if span is None else finished(action, finish, span[1] - span[0])
        turn = self._place.step(move, limits.tool_timeout_s)
        played = await self._env(Component.STEP, turn, limits.step_timeout_s, Reason.STEP_TIME)
        comments = await self._feedback(action, played)
        if comments:
            observation = [*played.result.observation, *comments]
            played = replace(played, result=played.result._replace(observation=observation))
        self._record(action, played, span, len(comments), finish)
        return played

    async def _feedback(self, action: Action, played: PlayedTurn) -> list[Message]:
        if self._listener is None or played.reason is not None:
            return []
        return await self._waiting(
            Component.FEEDBACK, self._listener.after(self._opening, action, played.result.observation)
        )

    async def _interrupt(self, reason: Reason) -> None:
        self._record(None, await self._interrupted(reason))

    async def _interrupted(self, reason: Reason) -> PlayedTurn:
        self._clock.step()
        turn = self._place.interrupt(reason)
        return await self._env(Component.STEP, turn, self._limits.step_timeout_s, Reason.STEP_TIME)

    def _record(
        self,
        action: Action | None,
        played: PlayedTurn,
        span: tuple[int, int] | None = None,
        feedback: int = 0,
        finish: Finish | None = None,
    ) -> None:
        trajectory, result = self._trajectory, played.result
        times = self._clock.stop(played.times)
        rewards = result.info["rewards"]
        trajectory.turns.append(
            Turn(action, result.observation, rewards, result.reward, span, feedback, times, finish or finish_of(action))
        )
        trajectory.reason = played.reason
        trajectory.counts = result.info.get("counts", {})
        if trajectory.reason is not None:
            trajectory.details = details_in(result.info)

    async def _env(self, component: Component, work: Awaitable[_T], limit_s: float | None, reason: Reason) -> _T:
        """Await the environment. A `ToolError` here is a bug in the environment, not the model's mistake."""
        what = "a reset" if component is Component.RESET else "a step"
        try:
            return await self._waiting(component, within(work, limit_s, reason, what))
        except ToolError as error:
            raise InfrastructureError(f"a ToolError was raised outside a tool: {describe(error)}") from error

    async def _waiting(self, component: Component, work: Awaitable[_T]) -> _T:
        """Await `work`. Failures and reports of waits name its component."""
        self._component = component
        of = self._trajectory.policy if component is Component.POLICY else self._trajectory.env_id
        self._waits.begin(self._job.id, component.value, of)
        return await work


def begun(job: Job, policy: str, factory: EnvFactory) -> Trajectory:
    """Return the trajectory of a job before its first turn.

    Args:
        job: The job.
        policy: The recorded name of the policy.
        factory: Makes the environments.
    """
    task = job.task
    return Trajectory(
        id=job.id,
        env_id=factory.env_id,
        env_kwargs=factory.kwargs,
        task_id=task.id,
        task_hash=task.hash,
        split=task.split,
        difficulty=task.difficulty,
        tags=task.tags,
        seed=job.seed,
        policy=policy,
        opening=[],
        attempt=job.attempt,
        training_step=job.training_step,
    )


def reason_of(error: BaseException) -> Reason:
    """Return why a failed episode ended."""
    if isinstance(error, BrokenTask):
        return Reason.BROKEN_TASK
    if isinstance(error, ScriptFailed):
        return Reason.SCRIPT_FAILED
    return error.reason if isinstance(error, OutOfTime) else Reason.INFRASTRUCTURE
