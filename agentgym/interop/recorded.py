"""`RecordedEpisode`: an episode driven by tool calls that is recorded as a trajectory."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from agentgym.endings import Reason
from agentgym.engine.steps import StepResult, details_in
from agentgym.env import Env
from agentgym.errors import BrokenTask
from agentgym.foreign.errors import describe
from agentgym.interop.called import CalledEpisode
from agentgym.messages import Message, with_call_ids
from agentgym.rollout.episode import begun, reason_of
from agentgym.rollout.failures import Component
from agentgym.rollout.jobs import EnvFactory, Job
from agentgym.trajectory import Trajectory, Turn


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
        record.turns.append(Turn(action, result.observation, info["rewards"], float(result.reward)))
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
