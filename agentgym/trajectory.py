"""Trajectories: the one record that evaluation, training, replay and viewers read. Lossless as JSONL, versioned.

Token ids are kept exactly as sampled; history is never rendered or tokenised again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from agentgym.endings import Ending, Reason
from agentgym.errors import UsageError
from agentgym.messages import Message
from agentgym.rewards import OUTCOME, SOLVED_AT
from agentgym.spaces import Action

SCHEMA_VERSION = 1


@dataclass
class Turn:
    """One model action and what came of it."""

    action: Action | None
    """What the policy produced: text, or an assistant message. `None` is the grading of an interrupted episode."""
    observation: list[Message]
    """The messages that answered it."""
    rewards: dict[str, float]
    """Raw reward channels of the turn."""
    reward: float
    """What the environment's scheme paid in this turn."""
    span: tuple[int, int] | None = None
    """Where in `Tokens.completion_ids` this turn's sampled tokens stand: `[start, end)`."""


@dataclass
class Tokens:
    """A trajectory as the policy saw it: prompt, then sampled and observed tokens in one stream.

    The lists other than `prompt_ids` have one entry per completion token.
    """

    prompt_ids: list[int] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)
    """1 on sampled tokens, 0 on observations and template glue."""
    logprobs: list[float] = field(default_factory=list)
    """Log-probability under the sampling policy; 0.0 where the mask is 0."""
    versions: list[int] = field(default_factory=list)
    """Number of weight updates the sampling policy had seen; -1 where the mask is 0."""

    def append_sampled(self, ids: list[int], logprobs: list[float], version: int) -> tuple[int, int]:
        """Append what the policy sampled; return its span."""
        start = len(self.completion_ids)
        self.completion_ids += ids
        self.loss_mask += [1] * len(ids)
        self.logprobs += logprobs
        self.versions += [version] * len(ids)
        return start, len(self.completion_ids)

    def append_observed(self, ids: list[int]) -> None:
        """Append tokens that the policy did not choose."""
        self.completion_ids += ids
        self.loss_mask += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)
        self.versions += [-1] * len(ids)

    @property
    def sampled(self) -> int:
        """Number of sampled tokens."""
        return sum(self.loss_mask)

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.completion_ids)


@dataclass
class Trajectory:
    """A recorded episode."""

    id: str
    env_id: str
    task_id: str
    task_hash: str
    seed: int | None
    policy: str
    opening: list[Message]
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    split: str = ""
    difficulty: int = 1
    tags: tuple[str, ...] = ()
    attempt: int = 0
    """Which of several trajectories of the same task this is, from 0."""
    training_step: int | None = None
    """The trainer's step that it was sampled in; `None` outside of training."""
    turns: list[Turn] = field(default_factory=list)
    reason: Reason | None = None
    """Why the episode ended; `None` while it goes on."""
    counts: dict[str, int] = field(default_factory=dict)
    """Tool calls, tool errors and format errors."""
    tokens: Tokens | None = None
    """Absent where the policy speaks only in messages."""
    seconds: float = 0.0
    """Wall-clock duration of the episode."""
    error: str | None = None
    """What broke, for a failed episode."""

    @property
    def ending(self) -> Ending | None:
        """The kind of ending."""
        return None if self.reason is None else self.reason.ending

    @property
    def channels(self) -> list[dict[str, float]]:
        """Raw reward channels, turn by turn."""
        return [turn.rewards for turn in self.turns]

    @property
    def outcome(self) -> float:
        """The episode's outcome channel."""
        return sum(turn.rewards.get(OUTCOME, 0.0) for turn in self.turns)

    @property
    def success(self) -> bool:
        """Whether the task was solved. A failed episode never was, whatever its turns had earned."""
        return self.ending is not Ending.FAILED and self.outcome >= SOLVED_AT

    @property
    def reward(self) -> float:
        """What the environment paid over the whole episode."""
        return sum(turn.reward for turn in self.turns)

    @property
    def messages(self) -> list[Message]:
        """The whole conversation."""
        messages = list(self.opening)
        for turn in self.turns:
            if turn.action is not None:
                messages.append(_said(turn.action))
            messages += turn.observation
        return messages

    def to_dict(self) -> dict[str, Any]:
        """Return the trajectory as JSON data."""
        data = {"schema": SCHEMA_VERSION, **{f.name: getattr(self, f.name) for f in fields(self)}}
        data["turns"] = [vars(turn) for turn in self.turns]
        data["tokens"] = None if self.tokens is None else asdict(self.tokens)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Trajectory:
        """Rebuild a trajectory from `to_dict`. Raises `UsageError` for a schema version it does not know."""
        values = dict(data)
        if (version := values.pop("schema", None)) != SCHEMA_VERSION:
            raise UsageError(f"this trajectory has schema version {version!r}; this release reads {SCHEMA_VERSION}")
        values["turns"] = [_turn(turn) for turn in values["turns"]]
        values["tokens"] = None if values["tokens"] is None else Tokens(**values["tokens"])
        values["reason"] = None if values["reason"] is None else Reason(values["reason"])
        values["tags"] = tuple(values["tags"])
        return cls(**values)


def _said(action: Action) -> Message:
    return {"role": "assistant", "content": action} if isinstance(action, str) else cast(Message, action)


def _turn(data: Mapping[str, Any]) -> Turn:
    span = data.get("span")
    return Turn(**{**data, "span": None if span is None else (span[0], span[1])})


def write_jsonl(path: str | Path, trajectories: Iterable[Trajectory], *, append: bool = False) -> None:
    """Write trajectories, one JSON object a line; appending first removes a last line that a crash cut off."""
    path = Path(path)
    if append:
        _mend(path)
    with path.open("a" if append else "w", encoding="utf-8") as file:
        for trajectory in trajectories:
            # ASCII escapes keep lone surrogates, which models do produce, exactly as they were.
            file.write(json.dumps(trajectory.to_dict()) + "\n")


def read_jsonl(path: str | Path) -> Iterator[Trajectory]:
    """Read trajectories. A last line that was cut off by a crash is passed over; any other bad line is an error.

    Raises:
        UsageError: A line is not a trajectory; the message names file and line.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not a file of trajectories: {error}") from error
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            yield Trajectory.from_dict(json.loads(line))
        except json.JSONDecodeError as error:
            if number == len(lines):
                return
            raise UsageError(f"{path}:{number}: not a trajectory: {error}") from error
        except UsageError as error:
            raise UsageError(f"{path}:{number}: {error}") from error
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{path}:{number}: not a trajectory: {error!r}") from error


def _mend(path: Path) -> None:
    """Make a file end with a whole line: finish the last one if it is all there, remove it if a crash cut it off."""
    if not path.exists() or path.stat().st_size == 0:
        return
    with path.open("rb+") as file:
        file.seek(-1, os.SEEK_END)
        if file.read() == b"\n":
            return
        file.seek(0)
        content = file.read()
        start = content.rfind(b"\n") + 1
        try:
            json.loads(content[start:])
        except ValueError:
            file.truncate(start)
        else:
            file.write(b"\n")
