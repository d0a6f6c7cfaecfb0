"""`CalledEpisode`: an episode driven by tool calls, for programs that run the conversation themselves.

For such trainers and clients, a tool is a function that returns text. Here, each call is a turn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from gymnasium.error import ResetNeeded

from agentgym.base.errors import BrokenTask, InfrastructureError
from agentgym.core.endings import AnyReason, Reason
from agentgym.core.engine.drive import run_now
from agentgym.core.engine.spaces import finish_of
from agentgym.core.engine.steps import StepResult, details_in
from agentgym.core.env import Env
from agentgym.core.foreign import describe
from agentgym.core.messages import Message, ToolCall, assistant, text_of, with_call_ids
from agentgym.core.trajectory import Trajectory, Turn
from agentgym.rollout.episode import begun, reason_of
from agentgym.rollout.failures import Component
from agentgym.rollout.jobs import EnvFactory, Job
from agentgym.rollout.workers.pool import EnvPool, discard

OVER = "The episode has ended: nothing that you call has an effect any more."
"""The result of tool calls after the end of the episode."""


class CalledEpisode:
    """Episodes of one environment, one after another, each driven by tool calls.

    Errors are those of the environment. An `InfrastructureError` says nothing about the policy, so its episode must be
    dropped, not rewarded. The policy's mistakes are part of the observations.

    Args:
        env: The environment; with `dialect="native"`, the program describes the tools.
    """

    def __init__(self, env: Env):
        self.env = env
        self.opening: list[Message] = []
        """The opening messages."""
        self.info: dict[str, Any] = {}
        """The latest `info` of the environment."""
        self.turn_rewards: list[float] = []
        """The reward of each turn, and of the grading if the program ended the episode."""
        self.turn_channels: list[dict[str, float]] = []
        """The unweighted reward channels, parallel to `turn_rewards`."""
        self.is_over = True
        """Whether the episode has ended."""
        self.is_truncated = False
        """Whether a limit ended it."""
        self.has_failed = False
        """Whether something around the policy failed, so that the episode has no reward."""

    @property
    def reward(self) -> float:
        """The sum of the rewards so far.

        Raises:
            ResetNeeded: The episode failed, so it has no reward.
        """
        if self.has_failed:
            raise ResetNeeded("the episode failed around the policy and has no reward; begin a new one")
        return sum(self.turn_rewards)

    @property
    def channels(self) -> dict[str, float]:
        """The sum of each unweighted reward channel over the turns so far."""
        names = dict.fromkeys(name for turn in self.turn_channels for name in turn)
        return {name: sum(turn.get(name, 0.0) for turn in self.turn_channels) for name in names}

    @property
    def ending(self) -> str | None:
        """The name of the reason for its ending; `None` while it runs."""
        return self.info.get("ending")

    def begin(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> list[Message]:
        """Begin an episode and return its opening messages. Takes the arguments of `Env.reset`."""
        with self._failing():
            return self._note_opening(*self.env.reset(seed=seed, options=options))

    async def abegin(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> list[Message]:
        """`begin` for asynchronous callers."""
        with self._failing():
            return self._note_opening(*await self.env.areset(seed=seed, options=options))

    def call(self, name: str, arguments: Mapping[str, Any]) -> list[Message]:
        """Play a turn that calls one tool, and return the observation."""
        return self.step(_turn(name, arguments))

    async def acall(self, name: str, arguments: Mapping[str, Any]) -> list[Message]:
        """`call` for asynchronous callers."""
        return await self.astep(_turn(name, arguments))

    def step(self, action: Any) -> list[Message]:
        """Play a turn as `Env.step` does, and return the observation; `OVER` after the end."""
        if self.is_over:
            return self._over()
        with self._failing():
            return self._note_turn(self.env.step(action))

    async def astep(self, action: Any) -> list[Message]:
        """`step` for asynchronous callers."""
        if self.is_over:
            return self._over()
        with self._failing():
            return self._note_turn(await self.env.astep(action))

    def end(self, reason: AnyReason = Reason.GAVE_UP) -> float:
        """End the episode if it still runs, so that it is graded, and return its reward.

        Args:
            reason: `GAVE_UP` if the policy stopped calling tools, or the limit that it reached.
        """
        if not self.is_over:
            with self._failing():
                self._note_turn(self.env.interrupt(reason))
        return self.reward

    async def aend(self, reason: AnyReason = Reason.GAVE_UP) -> float:
        """`end` for asynchronous callers."""
        if not self.is_over:
            with self._failing():
                self._note_turn(await self.env.ainterrupt(reason))
        return self.reward

    def close(self) -> None:
        """Close the environment. Safe to call twice."""
        self.is_over = True
        self.env.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Mark the episode as failed if the block raises."""
        try:
            yield
        except BaseException:
            self.is_over = self.has_failed = True
            raise

    def _over(self) -> list[Message]:
        if self.has_failed or not self.opening:
            raise ResetNeeded("no episode is running; begin one")
        return [{"role": "user", "content": OVER}]

    def _note_opening(self, opening: list[Message], info: dict[str, Any]) -> list[Message]:
        self.opening, self.info = opening, info
        self.turn_rewards, self.turn_channels = [], []
        self.is_over = self.is_truncated = self.has_failed = False
        return opening

    def _note_turn(self, result: StepResult) -> list[Message]:
        self.info = result.info
        self.turn_rewards.append(float(result.reward))
        self.turn_channels.append(dict(result.info["rewards"]))
        self.is_over, self.is_truncated = result.terminated or result.truncated, result.truncated
        return result.observation


def as_text(messages: Iterable[Message]) -> str:
    """Return messages as one text, for programs whose tools return text."""
    return "\n\n".join(text_of(message) for message in messages)


def _turn(name: str, arguments: Mapping[str, Any]) -> Message:
    return assistant("", [ToolCall(name, arguments)])


logger = logging.getLogger(__name__)

_Play = Callable[[], Awaitable[Any]]


class ReplayedEpisode(CalledEpisode):
    """A `CalledEpisode` that continues in a fresh environment after an `InfrastructureError`.

    The replay must give the same observations. If it does not, or after the last attempt, the error is raised and the
    episode has failed.

    Args:
        make: Makes an environment.
        attempts: Attempts at each turn, at least 1.
    """

    def __init__(self, make: Callable[[], Env], *, attempts: int = 3):
        super().__init__(make())
        self._make, self._attempts = make, attempts
        self._beginning: dict[str, Any] = {}
        self._turns: list[tuple[Any, list[Message]]] = []

    def begin(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> list[Message]:
        """Begin an episode; without a seed, it cannot be replayed later."""
        return run_now(self._first(_Now(self), seed, options))

    async def abegin(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> list[Message]:
        """`begin` for asynchronous callers."""
        return await self._first(_Later(self), seed, options)

    def step(self, action: Any) -> list[Message]:
        """Play a turn; `OVER` after the end."""
        return run_now(self._next(_Now(self), action))

    async def astep(self, action: Any) -> list[Message]:
        """`step` for asynchronous callers."""
        return await self._next(_Later(self), action)

    def end(self, reason: AnyReason = Reason.GAVE_UP) -> float:
        """End the episode if it still runs, and return its reward."""
        return run_now(self._last(_Now(self), reason))

    async def aend(self, reason: AnyReason = Reason.GAVE_UP) -> float:
        """`end` for asynchronous callers."""
        return await self._last(_Later(self), reason)

    async def _first(self, how: _Now, seed: int | None, options: Mapping[str, Any] | None) -> list[Message]:
        self._beginning, self._turns = {"seed": seed, "options": options}, []
        self.has_failed = False
        return await self._try(lambda: how.begin(**self._beginning), lambda: how.renew())

    async def _next(self, how: _Now, action: Any) -> list[Message]:
        if self.is_over:
            return self._over()
        observation = await self._try(lambda: how.step(action), lambda: self._replay(how))
        self._turns.append((action, observation))
        return observation

    async def _last(self, how: _Now, reason: AnyReason) -> float:
        if self.is_over:
            return self.reward
        return await self._try(lambda: how.end(reason), lambda: self._replay(how))

    async def _try(self, play: _Play, restart: _Play) -> Any:
        for attempts_left in reversed(range(self._attempts)):
            try:
                if self.has_failed:
                    await restart()
                return await play()
            except InfrastructureError as error:
                self.is_over = self.has_failed = True
                if not attempts_left:
                    raise
                logger.warning("replaying the episode in a fresh environment: %s", error)

    async def _replay(self, how: _Now) -> None:
        """Play the turns so far in a fresh environment."""
        if self._beginning["seed"] is None:
            raise InfrastructureError("an episode without a seed cannot be replayed: begin it with a seed")
        opening = self.opening
        await how.renew()
        if await how.begin(**self._beginning) != opening:
            raise InfrastructureError("the replay opened the episode with other messages")
        for action, observation in self._turns:
            if await how.step(action) != observation:
                raise InfrastructureError("the replay answered a turn with other messages")


class _Now:
    """Plays in the calling thread."""

    def __init__(self, episode: ReplayedEpisode):
        self.episode = episode

    async def begin(self, *, seed: int | None, options: Mapping[str, Any] | None) -> list[Message]:
        return CalledEpisode.begin(self.episode, seed=seed, options=options)

    async def step(self, action: Any) -> list[Message]:
        return CalledEpisode.step(self.episode, action)

    async def end(self, reason: AnyReason) -> float:
        return CalledEpisode.end(self.episode, reason)

    async def renew(self) -> None:
        """Replace the environment; errors in closing the failed one are ignored."""
        with suppress(Exception):
            self.episode.env.close()
        self.episode.env = self.episode._make()


class _Later(_Now):
    """Plays on the running event loop."""

    async def begin(self, *, seed: int | None, options: Mapping[str, Any] | None) -> list[Message]:
        return await CalledEpisode.abegin(self.episode, seed=seed, options=options)

    async def step(self, action: Any) -> list[Message]:
        return await CalledEpisode.astep(self.episode, action)

    async def end(self, reason: AnyReason) -> float:
        return await CalledEpisode.aend(self.episode, reason)

    async def renew(self) -> None:
        with suppress(Exception):
            await self.episode.env.aclose()
        self.episode.env = self.episode._make()


class RecordedEpisode(CalledEpisode):
    """A `CalledEpisode` that records a `Trajectory`: turns, channels, ending and errors.

    Args:
        env: The environment, made with `dialect="native"`.
        env_id: Its id in the record.
        env_kwargs: Its constructor arguments, for replaying.
        policy: The player's name in the record.
        id: The trajectory's id; by default that of its task.
    """

    def __init__(
        self,
        env: Env,
        *,
        env_id: str,
        env_kwargs: Mapping[str, Any] | None = None,
        policy: str = "caller",
        id: str | None = None,
    ):
        super().__init__(env)
        self.trajectory: Trajectory | None = None
        """The record so far; `None` before the episode has a task."""
        self.policy = policy
        self._env_id, self._env_kwargs, self._id = env_id, dict(env_kwargs or {}), id
        self._action: Any = None
        self._call_ids: set[str] = set()
        self._began = time.perf_counter()

    def step(self, action: Any) -> list[Message]:
        """Play a turn as `Env.step` does, and return the observation; `OVER` after the end."""
        return super().step(self._note_action(action))

    async def astep(self, action: Any) -> list[Message]:
        """`step` for asynchronous callers."""
        return await super().astep(self._note_action(action))

    def _note_action(self, action: Any) -> Any:
        self._action = with_call_ids(action, self._call_ids) if isinstance(action, Mapping) else action
        return self._action

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            with super()._failing():
                yield
        except BaseException as error:
            self._record_failure(error)
            raise

    def _note_opening(self, opening: list[Message], info: dict[str, Any]) -> list[Message]:
        self._began, self._call_ids, self._action = time.perf_counter(), set(), None
        record = self._new_record()
        self.trajectory = replace(record, opening=opening, tools=info["tools"])
        return super()._note_opening(opening, info)

    def _note_turn(self, result: StepResult) -> list[Message]:
        record, action, info = self.trajectory, self._action, result.info
        assert record is not None
        self._action = None
        record.turns.append(
            Turn(action, result.observation, info["rewards"], float(result.reward), finish=finish_of(action))
        )
        record.seconds = time.perf_counter() - self._began
        record.reason = self.env.reason
        if record.reason is not None:
            record.counts = info.get("counts", {})
            record.details = details_in(info)
        return super()._note_turn(result)

    def _record_failure(self, error: BaseException) -> None:
        """Mark the record as failed. Without a task there is no record."""
        component = Component.STEP
        if self.trajectory is None:
            if self.env._task is None:
                return
            self.trajectory, component = self._new_record(), Component.RESET
        record = self.trajectory
        record.reason = reason_of(error) if isinstance(error, Exception) else Reason.CANCELLED
        record.error = describe(error)
        record.component = (Component.TASK if isinstance(error, BrokenTask) else component).value
        record.seconds = time.perf_counter() - self._began

    def _new_record(self) -> Trajectory:
        task = self.env.task
        seed = self.env._seed
        job = Job(task, seed or 0, training_step=self.env.training_step)
        record = begun(job, self.policy, EnvFactory(self._env_id, self._env_kwargs))
        return replace(record, id=self._id or task.id, seed=seed)


_MANY = 2**20


@dataclass
class _Here:
    """The environments of one event loop: an asynchronous environment's resources belong to its loop."""

    pool: EnvPool
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    slots: asyncio.Semaphore | None = None
    playing: int = 0


class PooledEpisodes:
    """Episodes of one environment. Instances are reused unless their episode failed.

    Args:
        factory: Makes the environments.
        make_s: Seconds to make an environment; `None` means no limit.
    """

    def __init__(self, factory: EnvFactory, make_s: float | None = 300.0):
        self._factory, self._make_s = factory, make_s
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, _Here] = WeakKeyDictionary()

    async def take(self) -> CalledEpisode:
        """Return an episode to begin; waits while the maximum number (`max_concurrent`) is playing.

        Raises:
            InfrastructureError: The environment cannot be made.
        """
        here = self._here()
        slots = await self._slots(here)
        await slots.acquire()
        here.playing += 1
        try:
            return CalledEpisode(await here.pool.take(self._make_s))
        except BaseException:
            self._leave(here)
            raise

    async def give_back(self, episode: CalledEpisode) -> None:
        """Take an episode back. Its environment is closed if the episode failed or is still running."""
        here = self._here()
        try:
            if episode.has_failed or not episode.is_over:
                await discard(episode.env)
            else:
                here.pool.give_back(episode.env)
        finally:
            self._leave(here)

    async def _slots(self, here: _Here) -> asyncio.Semaphore:
        async with here.asking:  # `at_once` makes an environment, and their number is limited
            if here.slots is None:
                here.slots = asyncio.Semaphore(await here.pool.at_once(_MANY, self._make_s))
        return here.slots

    def _leave(self, here: _Here) -> None:
        here.playing -= 1
        if here.slots is not None:
            here.slots.release()

    async def close_if_idle(self) -> None:
        """Close the environments of this event loop if none is playing, for programs without a shutdown hook."""
        if not self._here().playing:
            await self.close()

    async def close(self) -> None:
        """Close the idle environments of this event loop."""
        await self._here().pool.close()

    def _here(self) -> _Here:
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            self._loops[loop] = _Here(EnvPool(self._factory))
        return self._loops[loop]
