"""`GatewaySession`: one episode of an agent, from its first call to its reward."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.endings import AnyReason, Reason
from agentgym.core.foreign import describe
from agentgym.core.rewards import OUTCOME
from agentgym.core.trajectory import Tokens, Trajectory, Turn
from agentgym.interop.served.gateway.request import ChatRequest, RequestRefused
from agentgym.interop.served.gateway.row import ChatReply, ConversationRow, RowSettings, RowTurn
from agentgym.interop.served.gateway.turn import TurnDraft
from agentgym.rollout.failures import Component

MAX_ROWS = 64
"""Maximum number of conversations, which stops an agent that rewrites its history at every call."""


@dataclass(frozen=True)
class SessionTask:
    """An agent's task. Sessions with the same task and seed form a group.

    Args:
        env_id: The environment.
        task_id: The task's id; by default the session's name.
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

    A call whose messages extend an earlier conversation continues its row with the sampled tokens. A call that
    rewrites history begins another row of the same episode.

    Args:
        name: The id of its trajectory.
        settings: The policy and its limits.
        played: The agent's task.
        api_key: The agent's key for this session; the gateway's own key works too.
        base_url: The URL for agents; empty if the gateway is not served.
    """

    name: str
    settings: RowSettings
    played: SessionTask = field(default_factory=SessionTask)
    api_key: str = ""
    base_url: str = ""

    def __post_init__(self) -> None:
        self._rows: list[ConversationRow] = []
        self._numbers = count()
        self._lock = threading.Lock()
        """Guards the rows and the end of the session: its owner may end it in another thread."""

        self._began = time.perf_counter()
        self._error: str | None = None
        self.used_at = time.monotonic()
        self.trajectories: list[Trajectory] = []
        """The trajectories, one per row, once the session has ended."""

        self.is_over = False
        """Whether the session has ended; it then refuses calls."""

    @property
    def has_calls(self) -> bool:
        """Whether the model has answered any call."""
        return any(row.turns for row in self._rows)

    def is_idle_since(self, moment: float) -> bool:
        """Whether there has been no call since a `time.monotonic` value."""
        return self.used_at < moment and not any(row.is_busy for row in self._rows)

    async def reply(self, request: ChatRequest, *, is_retry: bool = False, draft: TurnDraft | None = None) -> ChatReply:
        """Answer a call. A call that fails or is cancelled does not change the conversation, so it can be retried.

        Args:
            request: The call.
            is_retry: Whether the client has sent the same call before. If it was answered, it gets the same reply.
            draft: Receives the tokens as they are sampled.

        Raises:
            RequestRefused: The session has ended, or the conversation cannot be continued.
            InfrastructureError: The policy failed. The episode fails unless a later call succeeds.
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
            raise RequestRefused(f"session {self.name!r} has ended", 409, "session_ended")

    async def _repeated(self, request: ChatRequest) -> ChatReply | None:
        """Return the reply to a repeated call, if it was the last one of its conversation."""
        for row in self._rows[::-1]:
            if (reply := await row.repeated(request)) is not None:
                return reply
        return None

    def _row_for(self, request: ChatRequest) -> ConversationRow:
        for row in reversed(self._rows):
            if row.extends(request):
                return row
        if len(self._rows) >= MAX_ROWS:
            raise RequestRefused(
                f"the session has begun {MAX_ROWS} conversations, which is the limit", 429, "too_many_rows"
            )
        row = ConversationRow(self.settings, request, f"{self.name}/{next(self._numbers)}")
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
        """End the session with a reward for the whole episode, and return the trajectories.

        Args:
            reward: The reward of the episode, assigned to the last turn of every row.
            channels: Reward channels; by default the outcome is the reward.
            reason: Why the episode ended.
            error: A failure around the agent. The episode then has failed and has no reward.

        Raises:
            UsageError: The session has ended, or has no calls.
        """
        if channels is None:
            channels = {OUTCOME: float(reward)}
        with self._lock:
            rows = [self._paid_at_end(row, float(reward), channels, reason) for row in self._rewardable_rows()]
            return self._finish(rows, error)

    def end(self, record: Trajectory) -> list[Trajectory]:
        """End the session with a record of the agent's environment, and return the trajectories.

        Each turn of the model earns the environment's rewards for its calls: the session's calls and the record's turns
        are matched in order. Turns after the end of the episode are cut off. Earlier rows have the outcome at their
        ends.

        Args:
            record: A record as `agentgym serve env --mcp --out` writes it.

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
        """End the session because something around the agent failed. It has no reward and is not trained on.

        A session that has already ended does not change.

        Returns:
            The trajectories; a single one without turns if the agent has made no calls.
        """
        with self._lock:
            if self.is_over:
                return self.trajectories
            rows = [self._paid_at_end(row, 0.0, {}, Reason.INFRASTRUCTURE) for row in self._rows if row.turns]
            return self._finish(rows or [self._blank()], error)

    def _before_end(self, record: Trajectory) -> list[ConversationRow]:
        """Return the rows that began before the recorded episode ended; always includes the first."""
        first, *later = self._rewardable_rows()
        rows, calls = [first], first.calls
        for row in later:
            if calls >= len(record.model_turns) and record.reason is not Reason.GAVE_UP:
                break
            rows.append(row)
            calls += row.calls
        return rows

    def _rewardable_rows(self) -> list[ConversationRow]:
        """Return the rows with turns. Raises `UsageError` if the session has ended or has no calls."""
        rows = [row for row in self._rows if row.turns]
        if self.is_over:
            raise UsageError(f"session {self.name!r} has already ended")
        if not rows:
            raise UsageError(f"session {self.name!r} has no calls to reward; use fail()")
        return rows

    def _finish(
        self, trajectories: Sequence[Trajectory], error: str | None, record: Trajectory | None = None
    ) -> list[Trajectory]:
        """End the session with the trajectories of its rows, marked as failed if there is an error."""
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
        """Return a row's trajectory with the metadata of the environment's record."""
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
        """Return a row's trajectory as failed, without rewards."""
        turns = [replace(turn, rewards={}, reward=0.0) for turn in trajectory.turns]
        component = Component.STEP if self._error is None else Component.POLICY
        return replace(trajectory, turns=turns, reason=Reason.INFRASTRUCTURE, error=error, component=component.value)

    def _paid_at_end(
        self, row: ConversationRow, reward: float, channels: Mapping[str, float], reason: AnyReason
    ) -> Trajectory:
        """Return a row's trajectory with the whole reward at its end."""
        turns = row.as_turns()
        turns[-1] = replace(turns[-1], rewards=dict(channels), reward=reward)
        return self._trajectory(row, _filled(turns, channels), row.tokens, row.turns, reason)

    def _paid_by_turn(self, row: ConversationRow, record: Trajectory, skipped: int) -> Trajectory:
        """Return a row's trajectory, whose turns have the environment's rewards for their calls."""
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
        self, row: ConversationRow, turns: list[Turn], tokens: Tokens, row_turns: Sequence[RowTurn], reason: AnyReason
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
    """Return turns that all have the same channels, 0 by default."""
    zeros = dict.fromkeys(names, 0.0)
    return [replace(turn, rewards={**zeros, **turn.rewards}) for turn in turns]


def _cut(tokens: Tokens, end: int) -> Tokens:
    """Return tokens up to the end of a turn."""
    lists: dict[str, Any] = {name: value[:end] for name, value in vars(tokens).items() if name != "prompt_ids"}
    return Tokens(prompt_ids=list(tokens.prompt_ids), **lists)
