"""`Entry`: the short facts of a trajectory that lists, filters, statistics and resumed runs need."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.core.endings import Ending
from agentgym.core.timing import total_times
from agentgym.core.trajectory import Trajectory, logged_step


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a trajectory file: its position and the short facts of its trajectory."""

    offset: int
    """First byte of the line."""
    length: int
    """Bytes of the line, with its line break."""
    id: str
    env_id: str
    policy: str
    task_id: str
    task_hash: str
    seed: int | None
    arguments: str
    """Hash of the environment's arguments (`hash_of`)."""
    split: str
    difficulty: int
    tags: tuple[str, ...]
    attempt: int
    training_step: int | None
    reason: str | None
    """Why the episode ended."""
    ending: str | None
    """`terminated`, `truncated` or `failed`; `None` while the episode runs."""
    success: bool
    reward: float
    outcome: float
    turns: int
    """Number of the model's turns."""
    channels: Mapping[str, float]
    """Unweighted total of each reward channel."""
    counts: Mapping[str, int]
    """Tool calls, tool errors and format errors."""
    sampled_tokens: float | None
    """As recorded or reported by an endpoint; `None` if unknown."""
    observed_tokens: float | None
    """Tokens that the policy read but did not sample; endpoints do not report them."""
    input_tokens: float | None
    """Tokens of all requests: each turn sends the conversation before it again. As recorded or reported."""
    usage: Mapping[str, float]
    """Usage that an endpoint reports."""
    search: Mapping[str, float]
    """Cost of the whole search that chose the trajectory; empty without a search."""
    seconds: float
    generation_s: float | None
    """Seconds that the turns waited for the policy; `None` if the turns have no times."""
    environment_s: float | None
    """Seconds that the turns waited for the environment, without making and resetting it."""
    error: str | None
    component: str | None
    cut_turns: int
    """Number of the model's turns that a limit of tokens or time cut off."""

    @property
    def failed(self) -> bool:
        """Whether the task or something around the model failed."""
        return self.ending == Ending.FAILED

    @property
    def key(self) -> tuple[str, int | None]:
        """Identifies the episode in its file; earlier tries of it have the same key."""
        return self.id, self.training_step

    @property
    def step(self) -> int | None:
        """The training step, from 1 (`logged_step`)."""
        return logged_step(self.training_step)

    def to_list(self) -> list[Any]:
        """Return the fields as JSON data, in order."""
        return [getattr(self, name) for name in _NAMES]

    @classmethod
    def from_list(cls, values: Any) -> Entry:
        """Rebuild an entry from the output of `to_list`. Raises `ValueError` for anything else."""
        if type(values) is not list or len(values) != len(_NAMES):
            raise ValueError("not an entry")
        return cls(**dict(zip(_NAMES, values, strict=True)))

    def __post_init__(self) -> None:
        # Hundreds of thousands of entries share these values, so each is stored once.
        for name in _SHARED:
            object.__setattr__(self, name, _once(getattr(self, name)))
        object.__setattr__(self, "tags", _the_same_tags(tuple(self.tags)))
        object.__setattr__(self, "counts", _the_same_counts(tuple(self.counts.items())))
        for name in _NUMBERS:
            values = {_once(key): value for key, value in getattr(self, name).items()}
            object.__setattr__(self, name, values or _NOTHING)


_NAMES = tuple(field.name for field in fields(Entry))
_SHARED = ("env_id", "policy", "task_id", "task_hash", "arguments", "split", "reason", "ending", "component")
_NUMBERS = ("channels", "usage", "search")
_NOTHING: Mapping[str, float] = {}
_REMEMBERED = 4096


def _once(value: Any) -> Any:
    """Return the shared copy of a text. Other values, including subclasses of `str`, are returned unchanged."""
    return sys.intern(value) if type(value) is str else value


@lru_cache(_REMEMBERED)
def _the_same_tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(_once, tags))


@lru_cache(_REMEMBERED)
def _the_same_counts(counts: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    return {_once(name): count for name, count in counts}


def entry_of(trajectory: Trajectory, offset: int = 0, length: int = 0) -> Entry:
    """Return the entry of a trajectory.

    Args:
        trajectory: The trajectory.
        offset: First byte of its line, if it is in a file.
        length: Bytes of its line.
    """
    generation_s, environment_s = total_times([turn.times for turn in trajectory.turns])
    return Entry(
        offset=offset,
        length=length,
        id=trajectory.id,
        env_id=trajectory.env_id,
        policy=trajectory.policy,
        task_id=trajectory.task_id,
        task_hash=trajectory.task_hash,
        seed=trajectory.seed,
        arguments=hash_of(trajectory.env_kwargs),
        split=trajectory.split,
        difficulty=trajectory.difficulty,
        tags=trajectory.tags,
        attempt=trajectory.attempt,
        training_step=trajectory.training_step,
        reason=None if trajectory.reason is None else str(trajectory.reason),
        ending=None if trajectory.ending is None else str(trajectory.ending),
        success=trajectory.success,
        reward=trajectory.reward,
        outcome=trajectory.outcome,
        turns=len(trajectory.model_turns),
        channels=channel_totals(trajectory),
        counts=dict(trajectory.counts),
        sampled_tokens=sampled_tokens(trajectory),
        observed_tokens=observed_tokens(trajectory),
        input_tokens=input_tokens(trajectory),
        usage=dict(trajectory.usage),
        search=dict(trajectory.search),
        seconds=trajectory.seconds,
        generation_s=generation_s,
        environment_s=environment_s,
        error=trajectory.error,
        component=trajectory.component,
        cut_turns=sum(trajectory.cut_turns),
    )


def channel_totals(trajectory: Trajectory) -> dict[str, float]:
    """Return the unweighted total of each reward channel."""
    totals: dict[str, float] = {}
    for turn in trajectory.turns:
        for name, value in turn.rewards.items():
            totals[name] = totals.get(name, 0.0) + value
    return totals


def sampled_tokens(trajectory: Trajectory) -> float | None:
    """Return the number of sampled tokens, as recorded or else as reported by the endpoint."""
    if trajectory.tokens is not None:
        return trajectory.tokens.sampled
    return trajectory.usage.get("completion_tokens")


def observed_tokens(trajectory: Trajectory) -> float | None:
    """Return the number of tokens that the policy read but did not sample; `None` if they were not recorded."""
    if trajectory.tokens is None:
        return None
    return len(trajectory.tokens) - trajectory.tokens.sampled


def input_tokens(trajectory: Trajectory) -> float | None:
    """Return the number of tokens of all requests, as reported by the endpoint or else as recorded."""
    if (reported := trajectory.usage.get("prompt_tokens")) is not None or trajectory.tokens is None:
        return reported
    prompt = len(trajectory.tokens.prompt_ids)
    requests = [prompt + turn.span[0] for turn in trajectory.turns if turn.span is not None]
    return sum(requests) if requests else None


def hash_of(arguments: Mapping[str, Any]) -> str:
    """Return a short hash of an environment's arguments. Raises `UsageError` if they are not JSON data."""
    try:
        text = json.dumps(arguments, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise UsageError(f"these environment arguments cannot be written as JSON: {error}") from error
    return hashlib.sha256(text.encode()).hexdigest()[:16]
