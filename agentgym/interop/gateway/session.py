"""`GatewaySession`: one episode of an agent, from its first call to its reward."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from agentgym.endings import AnyReason, Reason
from agentgym.errors import InfrastructureError, UsageError
from agentgym.foreign.errors import describe
from agentgym.interop.gateway.errors import Refused
from agentgym.interop.gateway.request import ChatRequest
from agentgym.interop.gateway.row import Reply, Row, RowSettings, RowTurn
from agentgym.interop.gateway.turn import Draft
from agentgym.rewards import OUTCOME
from agentgym.rollout.failures import Component
from agentgym.trajectory import Tokens, Trajectory, Turn

MAX_ROWS = 64
"""An agent that rewrites its history at every call is stopped after so many conversations."""


@dataclass(frozen=True)
class Played:
    """The task of an agent. Sessions with the same task and seed are a group.

    Args:
        env_id: Where it acted.
        task_id: Its task; by default the session is a task of its own.
        seed: The seed of the episode.
        training_step: The trainer's step.
    """

    env_id: str = "gateway"
    task_id: str | None = None
    seed: int | None = None
    training_step: int | None = None


@dataclass
class GatewaySession:
    """The calls of one agent in one episode, joined into conversations.

    A call whose messages extend the former conversation continues its row with the tokens as they were sampled. One
    that rewrites history begins another row of the same episode.

    Args:
        name: The id of its trajectory.
        settings: The policy and its limits.
        played: The task of the agent.
        api_key: With this key, and no other but the gateway's own, the agent may make calls in this session.
        base_url: The address for agents; empty if the gateway is not served.
    """

    name: str
    settings: RowSettings
    played: Played = field(default_factory=Played)
    api_key: str = ""
    base_url: str = ""

    def __post_init__(self) -> None:
        self._rows: list[Row] = []
        self._numbers = count()
        self._lock = threading.Lock()
        """Held while rows or replies are added or the session ends, which its owner may do in another thread."""

        self._began = time.perf_counter()
        self._error: str | None = None
        self.used_at = time.monotonic()
        self.trajectories: list[Trajectory] = []
        """The episode, one for each row, once it has ended."""

        self.is_over = False
        """Whether the session has ended; it takes no calls any more."""

    @property
    def has_calls(self) -> bool:
        """Whether the model has said something in it."""
        return any(row.turns for row in self._rows)

    def is_idle_since(self, moment: float) -> bool:
        """Whether there has been no call after a moment (`time.monotonic`)."""
        return self.used_at < moment and not any(row.is_busy for row in self._rows)

    async def reply(self, request: ChatRequest, *, is_retry: bool = False, draft: Draft | None = None) -> Reply:
        """Answer a call. One that fails or is cancelled leaves the conversation as it was, so it may be made again.

        Args:
            request: The call.
            is_retry: Whether the client has made the same call before and may not have received its answer. If there
                was one, it is given again.
            draft: Receives the tokens as they are sampled.

        Raises:
            Refused: The session has ended, or the conversation cannot be continued.
            InfrastructureError: The policy broke. The episode has failed unless a later call succeeds.
        """
        self._check_open()
        self.used_at = time.monotonic()
        if is_retry and (reply := await self._repeated(request)) is not None:
            return reply
        row = self._row_for(request)
        try:
            sample = await row.sample(request, draft)
            with self._lock:
                self._check_open()
                reply = row.keep(sample)
        except InfrastructureError as error:
            self._error = describe(error)
            raise
        finally:
            if not row.turns:
                with self._lock:
                    self._rows.remove(row)
                row.release()
        self._error, self.used_at = None, time.monotonic()
        return reply

    def _check_open(self) -> None:
        if self.is_over:
            raise Refused(f"session {self.name!r} has ended", 409, "session_ended")

    async def _repeated(self, request: ChatRequest) -> Reply | None:
        """Return the reply to a call that has been made before, if it was the last of its conversation."""
        for row in self._rows[::-1]:
            if (reply := await row.repeated(request)) is not None:
                return reply
        return None

    def _row_for(self, request: ChatRequest) -> Row:
        for row in reversed(self._rows):
            if row.extends(request):
                return row
        if len(self._rows) >= MAX_ROWS:
            raise Refused(f"the session has begun {MAX_ROWS} conversations, which is the limit", 429, "too_many_rows")
        row = Row(self.settings, request, f"{self.name}/{next(self._numbers)}")
        with self._lock:
            self._rows.append(row)
        return row

    def reward(
        self,
        reward: float,
        *,
        channels: Mapping[str, float] | None = None,
        reason: AnyReason = Reason.ANSWERED,
        error: str | None = None,
    ) -> list[Trajectory]:
        """End the session with a reward at its end, and return the trajectories.

        Args:
            reward: The reward of the episode. It stands on the last turn of every row.
            channels: Reward channels; by default the outcome is the reward.
            reason: Why the episode ended.
            error: A failure of something around the agent. The episode has failed then and has no reward.

        Raises:
            UsageError: The session has ended, or has no calls.
        """
        if channels is None:
            channels = {OUTCOME: float(reward)}
        with self._lock:
            rows = [self._paid_at_end(row, float(reward), channels, reason) for row in self._rewardable_rows()]
            return self._finish(rows, error)

    def end(self, record: Trajectory) -> list[Trajectory]:
        """End the session with the record of the environment that the agent acted in, and return the trajectories.

        Each turn of the model earns what the environment paid for the calls that it made: the calls of the session and
        the turns of the record are matched in order. Turns after the end of the episode are cut off. Earlier rows carry
        the outcome at their ends.

        Args:
            record: As `agentgym serve env --mcp --out` writes it.

        Raises:
            UsageError: The session has ended, or has no calls.
        """
        with self._lock:
            return self._end_by(record)

    def _end_by(self, record: Trajectory) -> list[Trajectory]:
        self.played = replace(self.played, env_id=record.env_id, task_id=record.task_id, seed=record.seed)
        failure = (record.error or "the environment failed") if record.failed else None
        *earlier, last = self._before_end(record)
        rows = [self._paid_at_end(row, record.reward, _sums(record.turns), _reason(record)) for row in earlier]
        calls = sum(row.calls for row in earlier)
        return self._finish([*rows, self._paid_by_turn(last, record, calls)], failure, record)

    def fail(self, error: str) -> list[Trajectory]:
        """End the session because something around the agent broke. It has no reward and teaches nothing.

        A session that has ended already stays as it is.

        Returns:
            The trajectories, one without turns if the agent has made no calls.
        """
        with self._lock:
            if self.is_over:
                return self.trajectories
            rows = [self._paid_at_end(row, 0.0, {}, Reason.INFRASTRUCTURE) for row in self._rows if row.turns]
            return self._finish(rows or [self._blank()], error)

    def _before_end(self, record: Trajectory) -> list[Row]:
        """Return the rows that began before the episode of a record had ended: at least the first."""
        first, *later = self._rewardable_rows()
        rows, calls = [first], first.calls
        for row in later:
            if calls >= len(record.model_turns) and record.reason is not Reason.GAVE_UP:
                break
            rows.append(row)
            calls += row.calls
        return rows

    def _rewardable_rows(self) -> list[Row]:
        """Return the rows with turns. Raises `UsageError` if the session has ended or has no calls."""
        rows = [row for row in self._rows if row.turns]
        if self.is_over:
            raise UsageError(f"session {self.name!r} has ended already")
        if not rows:
            raise UsageError(f"session {self.name!r} has no calls, so there is nothing to reward; use fail()")
        return rows

    def _finish(
        self, trajectories: Sequence[Trajectory], error: str | None, record: Trajectory | None = None
    ) -> list[Trajectory]:
        """End the session with the trajectories of its rows, which are failed ones if there is an error."""
        for row in self._rows:
            row.release()
        self.is_over = True
        error = error or self._error
        count = len(trajectories)
        self.trajectories = [
            self._named(trajectory, number, count, error, record)
            for number, trajectory in enumerate(trajectories, start=1)
        ]
        return self.trajectories

    def _named(
        self, trajectory: Trajectory, number: int, count: int, error: str | None, record: Trajectory | None
    ) -> Trajectory:
        if count > 1:
            trajectory = replace(trajectory, id=f"{trajectory.id}/{number}", tags=(f"row {number} of {count}",))
        if record is not None:
            trajectory = self._of_record(trajectory, record)
        return trajectory if error is None else self._as_failed(trajectory, error)

    def _of_record(self, trajectory: Trajectory, record: Trajectory) -> Trajectory:
        """Return a row as one of the episode that an environment recorded."""
        return replace(
            trajectory,
            env_kwargs={**record.env_kwargs, "dialect": self.settings.dialect.name},
            task_hash=record.task_hash,
            split=record.split,
            difficulty=record.difficulty,
            tags=(*record.tags, *trajectory.tags),
            details=record.details,
        )

    def _as_failed(self, trajectory: Trajectory, error: str) -> Trajectory:
        """Return a row without its rewards."""
        turns = [replace(turn, rewards={}, reward=0.0) for turn in trajectory.turns]
        component = Component.STEP if self._error is None else Component.POLICY
        return replace(trajectory, turns=turns, reason=Reason.INFRASTRUCTURE, error=error, component=component.value)

    def _paid_at_end(self, row: Row, reward: float, channels: Mapping[str, float], reason: AnyReason) -> Trajectory:
        """Return a row with all its reward at its end."""
        turns = row.as_turns()
        turns[-1] = replace(turns[-1], rewards=dict(channels), reward=reward)
        return self._trajectory(row, _filled(turns, channels), row.tokens, row.turns, reason)

    def _paid_by_turn(self, row: Row, record: Trajectory, skipped: int) -> Trajectory:
        """Return a row whose turns earn the rewards that the environment paid for their calls."""
        unmatched = record.model_turns[skipped:]
        turns: list[Turn] = []
        for row_turn, turn in zip(row.turns, row.as_turns(), strict=True):
            if turns and not unmatched and record.reason is not Reason.GAVE_UP:
                break  # the episode had ended
            paid, unmatched = unmatched[: row_turn.calls], unmatched[row_turn.calls :]
            turns.append(replace(turn, rewards=_sums(paid), reward=sum(step.reward for step in paid)))
        late = [*unmatched, *record.turns[len(record.model_turns) :]]
        reward = turns[-1].reward + sum(step.reward for step in late)
        turns[-1] = replace(turns[-1], rewards=_added(turns[-1].rewards, _sums(late)), reward=reward)
        row_turns = row.turns[: len(turns)]
        tokens = _cut(row.tokens, row_turns[-1].span[1])
        names = dict.fromkeys(name for turn in record.turns for name in turn.rewards)
        return self._trajectory(row, _filled(turns, names), tokens, row_turns, _reason(record))

    def _blank(self) -> Trajectory:
        """Return the trajectory of an agent that has made no calls."""
        played, name = self.played, self.name
        task = played.task_id or name
        return Trajectory(name, played.env_id, task, "", played.seed, self.settings.policy.name, [], {})

    def _trajectory(
        self, row: Row, turns: list[Turn], tokens: Tokens, row_turns: Sequence[RowTurn], reason: AnyReason
    ) -> Trajectory:
        played = self.played
        return Trajectory(
            id=self.name,
            env_id=played.env_id,
            task_id=played.task_id or self.name,
            task_hash="",
            seed=played.seed,
            policy=self.settings.policy.name,
            opening=row.opening,
            training_step=played.training_step,
            turns=turns,
            tools=row.schemas,
            reason=reason,
            counts={
                "calls": sum(turn.calls for turn in row_turns),
                "tool_errors": 0,
                "format_errors": sum(not turn.is_readable for turn in row_turns),
            },
            tokens=tokens,
            seconds=time.perf_counter() - self._began,
        )


def _reason(record: Trajectory) -> AnyReason:
    return record.reason or Reason.INFRASTRUCTURE


def _sums(turns: Iterable[Turn]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for turn in turns:
        sums = _added(sums, turn.rewards)
    return sums


def _added(rewards: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    return {name: rewards.get(name, 0.0) + others.get(name, 0.0) for name in {**rewards, **others}}


def _filled(turns: Sequence[Turn], names: Iterable[str]) -> list[Turn]:
    """Return turns that all show the same channels."""
    zeros = dict.fromkeys(names, 0.0)
    return [replace(turn, rewards={**zeros, **turn.rewards}) for turn in turns]


def _cut(tokens: Tokens, end: int) -> Tokens:
    """Return tokens up to the end of a turn."""
    lists: dict[str, Any] = {name: value[:end] for name, value in vars(tokens).items() if name != "prompt_ids"}
    return Tokens(prompt_ids=list(tokens.prompt_ids), **lists)
