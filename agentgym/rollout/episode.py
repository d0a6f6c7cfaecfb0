"""One try at one job: plays an episode and records it."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable
from dataclasses import replace
from math import inf
from typing import Any, TypeVar

from agentgym.dialects.text import THINK
from agentgym.endings import Reason
from agentgym.engine.answers import as_data
from agentgym.engine.spaces import Action
from agentgym.engine.steps import ENGINE_INFO
from agentgym.errors import BrokenTask, InfrastructureError, ToolError, UsageError
from agentgym.foreign.errors import describe, ends_work, running_task
from agentgym.messages import Message, shown_pictures
from agentgym.policy import (
    Codec,
    EndEpisode,
    Generation,
    Player,
    Policy,
    ScriptedPolicy,
    SeeingPolicy,
    TokenPolicy,
)
from agentgym.rollout.deadlines import OutOfTime, within
from agentgym.rollout.failures import Component, WorkerLost
from agentgym.rollout.jobs import EnvFactory, Job
from agentgym.rollout.limits import Limits
from agentgym.rollout.waits import Waits
from agentgym.rollout.workers.base import Opening, Place, Played, Workers
from agentgym.seat import Seat
from agentgym.timing import TurnClock
from agentgym.trajectory import Tokens, Trajectory, Turn

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_PATIENCE = 4
"""A token policy cuts off its turns by itself, and may queue them before; after this many limits it counts as stuck."""

_TOKENS_OF_THINK = 12
"""At most so many tokens make up `<think>` and the line break after it."""


class Episode:
    """One try at one job."""

    _place: Place

    def __init__(self, job: Job, policy: Policy, factory: EnvFactory, limits: Limits, waits: Waits):
        self._job, self._policy, self._limits, self._waits = job, policy, limits, waits
        self._sampler = policy if isinstance(policy, TokenPolicy) else None  # asked once: the answer takes long
        self._started = time.perf_counter()
        self._clock = TurnClock(self._started)
        self._deadline = inf
        self._component = Component.MAKING
        sees = self._sampler is not None and isinstance(policy, SeeingPolicy) and policy.sees
        self._eyes: SeeingPolicy | None = policy if sees else None  # type: ignore[assignment]
        self._pictures: list[bytes] = []
        self._picture_tokens = 0
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

    async def run(self, workers: Workers) -> Trajectory:
        """Play the episode to its end in one of the workers' environments."""
        try:
            # `take` has the limit itself: only it knows when the work starts.
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
            reason=_reason_of(error),
            component=self.component_of(error).value,
            error=describe(error),
            seconds=time.perf_counter() - self._started,
        )

    def component_of(self, error: BaseException) -> Component:
        """Return what failed."""
        if isinstance(error, BrokenTask):
            return Component.TASK
        return Component.WORKER if isinstance(error, WorkerLost) else self._component

    def _is_stuck(self, error: BaseException) -> bool:
        """Whether the environment did not return in time. One whose policy did not is idle."""
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
        trajectory.opening, trajectory.tools = opening.messages, opening.tools
        if self._sampler is not None:
            await self._play_tokens(self._sampler, opening)
        else:
            player = await self._player(opening)
            try:
                await self._play_messages(player, opening.messages)
            finally:
                trajectory.usage = dict(getattr(player, "usage", {}))
        trajectory.seconds = time.perf_counter() - self._started
        return trajectory

    async def _player(self, opening: Opening) -> Player:
        policy, job = self._policy, self._job
        assert not isinstance(policy, TokenPolicy)
        if isinstance(policy, ScriptedPolicy):
            return await self._place.script(policy)
        seed = job.seed + job.attempt
        return policy.player(Seat.of(opening.tools, opening.dialect, seed, opening.max_calls))

    async def _play_messages(self, player: Player, observation: list[Message]) -> None:
        limit_s = self._limits.generation_timeout_s
        while self._trajectory.reason is None:
            if self._is_over:
                await self._interrupt(Reason.TIME)
                return
            self._clock.ask()
            turn = within(self._asked(player.act(observation)), limit_s, Reason.INFRASTRUCTURE, "a turn of the policy")
            try:
                action = await self._waiting(Component.POLICY, turn)
            except EndEpisode as end:
                await self._interrupt(end.reason)
                return
            if action is None:
                await self._interrupt(Reason.GAVE_UP)
                return
            observation = (await self._step(action)).result.observation

    async def _play_tokens(self, policy: TokenPolicy, opening: Opening) -> None:
        tokens = self._trajectory.tokens = Tokens(prompt_ids=policy.codec.open(opening.messages, opening.tools))
        self._see(opening.messages)
        while self._trajectory.reason is None:
            room = self._room(policy, tokens)
            if isinstance(room, Reason):
                await self._interrupt(room)
                return
            said = await self._generated(policy, tokens, room)
            text = _text_of(policy.codec, tokens, said.ids)
            span = tokens.append_sampled(said.ids, said.logprobs, said.version)
            if said.finish == "time":
                await self._cut_off(text, span)
                return
            played = await self._step(text, span)
            if self._trajectory.reason is None:
                tokens.append_observed(policy.codec.extend(played.result.observation, said.ids[-1]))
                self._see(played.result.observation)

    def _see(self, messages: list[Message]) -> None:
        """Keep the pictures in messages for a policy that sees. The codec tells others in words."""
        if self._eyes is not None and (shown := shown_pictures(messages)):
            self._pictures += shown
            self._picture_tokens += sum(map(self._eyes.picture_tokens, shown))

    async def _generated(self, policy: TokenPolicy, tokens: Tokens, room: int) -> Generation:
        """Return the next turn of a token policy, cut off at its time limit."""
        limit_s = self._turn_limit_s()
        history = tokens.prompt_ids + tokens.completion_ids
        seen: dict[str, Any] = {"pictures": tuple(self._pictures)} if self._pictures else {}
        self._clock.ask()
        turn = self._asked(policy.generate(history, room, self._job.id, timeout_s=limit_s, **seen))
        patience_s = None if limit_s is None else limit_s * _PATIENCE
        said = await self._waiting(
            Component.POLICY, within(turn, patience_s, Reason.INFRASTRUCTURE, "a turn of the policy")
        )
        self._clock.queued(said.queued_s)
        if not said.ids and said.finish != "time":
            raise InfrastructureError(f"policy {policy.name!r} sampled nothing, not even the end of its turn")
        return said

    def _turn_limit_s(self) -> float | None:
        """Return the seconds that a turn may take: its own limit, or what is left of the episode's if that is less."""
        limit_s = min(self._limits.generation_timeout_s or inf, self._deadline - time.monotonic())
        return None if limit_s == inf else limit_s

    async def _cut_off(self, text: str, span: tuple[int, int]) -> None:
        """End the episode at a turn that took too long. Its tokens are kept: they are part of what the policy does."""
        self._record(text, await self._interrupted(Reason.GENERATION_TIME), span)

    def _room(self, policy: TokenPolicy, tokens: Tokens) -> int | Reason:
        """Return how many tokens the next turn may have, or the reason why it may have none."""
        if self._is_over:
            return Reason.TIME
        room = min(self._limits.max_new_tokens, policy.context - len(tokens) - self._picture_tokens)
        if room < 1:
            return Reason.CONTEXT
        if self._limits.max_tokens is not None:
            room = min(room, self._limits.max_tokens - tokens.sampled)
        return room if room > 0 else Reason.TOKEN_BUDGET

    @property
    def _is_over(self) -> bool:
        """Whether the episode has reached its time limit."""
        return time.monotonic() >= self._deadline

    async def _step(self, action: Action, span: tuple[int, int] | None = None) -> Played:
        limits = self._limits
        self._clock.step()
        turn = self._place.step(action, limits.tool_timeout_s)
        played = await self._env(Component.STEP, turn, limits.step_timeout_s, Reason.STEP_TIME)
        self._record(action, played, span)
        return played

    async def _interrupt(self, reason: Reason) -> None:
        self._record(None, await self._interrupted(reason))

    async def _interrupted(self, reason: Reason) -> Played:
        self._clock.step()
        turn = self._place.interrupt(reason)
        return await self._env(Component.STEP, turn, self._limits.step_timeout_s, Reason.STEP_TIME)

    def _record(self, action: Action | None, played: Played, span: tuple[int, int] | None = None) -> None:
        trajectory, result = self._trajectory, played.result
        times = self._clock.stop(played.times)
        trajectory.turns.append(Turn(action, result.observation, result.info["rewards"], result.reward, span, times))
        trajectory.reason = played.reason
        trajectory.counts = result.info.get("counts", {})
        if trajectory.reason is not None:
            details = {str(name): as_data(value) for name, value in result.info.items() if name not in ENGINE_INFO}
            trajectory.details = details

    async def _asked(self, question: Any) -> Any:
        """Await the policy. Whatever it raises counts as infrastructure, except for the caller's mistakes."""
        task = running_task()
        try:
            return await question
        except (EndEpisode, UsageError, InfrastructureError, TimeoutError):
            raise
        except BaseException as error:
            if ends_work(error, task):
                raise
            raise InfrastructureError(f"policy {self._policy.name!r}: {describe(error)}") from error

    async def _env(self, component: Component, work: Awaitable[_T], limit_s: float | None, reason: Reason) -> _T:
        """Await the environment. A `ToolError` that gets here is an author's bug, not the model's mistake."""
        what = "a reset" if component is Component.RESET else "a step"
        try:
            return await self._waiting(component, within(work, limit_s, reason, what))
        except ToolError as error:
            raise InfrastructureError(f"a ToolError was raised outside of a tool: {describe(error)}") from error

    async def _waiting(self, component: Component, work: Awaitable[_T]) -> _T:
        """Await `work`, while reports of waits and failures name its component."""
        self._component = component
        self._waits.begin(self._job.id, component.value)
        return await work


def _text_of(codec: Codec, before: Tokens, ids: list[int]) -> str:
    """Return the text of a turn. If the prompt opened the reasoning, so does the text: calls in it are no calls."""
    text = codec.decode(ids)
    last = (before.completion_ids or before.prompt_ids)[-_TOKENS_OF_THINK:]
    return f"{THINK}\n{text}" if codec.decode(last).rstrip().endswith(THINK) else text


def _reason_of(error: BaseException) -> Reason:
    if isinstance(error, BrokenTask):
        return Reason.BROKEN_TASK
    return error.reason if isinstance(error, OutOfTime) else Reason.INFRASTRUCTURE
