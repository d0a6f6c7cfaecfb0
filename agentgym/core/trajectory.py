"""Trajectories: the record that evaluation, training, replay and viewers share. Lossless, versioned JSONL.

Token ids are stored exactly as sampled; history is never rendered or tokenised again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from agentgym.base.errors import UsageError
from agentgym.base.fields import (
    Rules,
    check_fields,
    excerpt_of,
    is_count,
    is_counts,
    is_messages,
    is_number,
    is_numbers,
    is_object,
    is_text,
    list_of,
    object_of,
    or_null,
    required_fields,
)
from agentgym.base.json_lines import json_lines, mend_last_line
from agentgym.core.endings import AnyReason, Ending, reason_data, reason_from
from agentgym.core.engine.spaces import Action, Finish, action_message, as_played
from agentgym.core.messages import Message
from agentgym.core.rewards import OUTCOME, SOLVED_AT
from agentgym.core.timing import TurnTimes

SCHEMA_VERSION = 1


@dataclass
class Turn:
    """One model action and its results."""

    action: Action | None
    """The policy's output: text or an assistant message. `None` marks the grading of an interrupted episode."""
    observation: list[Message]
    """The messages returned in response."""
    rewards: dict[str, float]
    """Raw reward channels of the turn."""
    reward: float
    """The reward that the environment's scheme paid in this turn."""
    span: tuple[int, int] | None = None
    """Position of this turn's sampled tokens in `Tokens.completion_ids`: `[start, end)`."""
    feedback: int = 0
    """Number of messages at the end of the observation that are feedback, not from the environment."""
    times: TurnTimes | None = field(default=None, compare=False)
    """Breakdown of the turn's time; missing in older recordings. Ignored when turns are compared."""
    finish: Finish | None = None
    """How the policy's turn ended; `None` without a turn and in older recordings."""

    @property
    def is_cut_off(self) -> bool:
        """Whether a limit of tokens or time cut the turn off, so that the environment ran nothing in it."""
        return self.finish in ("length", "time")

    @property
    def move(self) -> Action | None:
        """The action as an environment plays it: marked as cut off if it reached its token limit."""
        return as_played(self.action, self.finish, self.span)

    @property
    def answered(self) -> list[Message]:
        """The environment's own messages: the observation without feedback."""
        return self.observation[: len(self.observation) - self.feedback]


@dataclass
class Tokens:
    """A trajectory as the policy saw it: the prompt, then sampled and observed tokens in one stream.

    All lists except `prompt_ids` have one entry per completion token.
    """

    prompt_ids: list[int] = field(default_factory=list)
    completion_ids: list[int] = field(default_factory=list)
    loss_mask: list[int] = field(default_factory=list)
    """1 on sampled tokens, 0 on observations and template glue."""
    logprobs: list[float] = field(default_factory=list)
    """Log-probabilities under the sampling policy; 0.0 where the mask is 0."""
    versions: list[int] = field(default_factory=list)
    """Version of the weights that sampled each token (`Generation.version`); -1 where the mask is 0."""

    def append_sampled(self, ids: list[int], logprobs: list[float], version: int) -> tuple[int, int]:
        """Append sampled tokens; return their span."""
        start = len(self.completion_ids)
        self.completion_ids += ids
        self.loss_mask += [1] * len(ids)
        self.logprobs += logprobs
        self.versions += [version] * len(ids)
        return start, len(self.completion_ids)

    def append_observed(self, ids: list[int]) -> None:
        """Append tokens that the policy did not sample."""
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
    """Index among the trajectories of the same task, from 0."""
    training_step: int | None = None
    """Number of completed training steps when it was sampled, as passed to the environment; `None` outside of training.
    Logs, tables and the viewer count steps from 1 (`logged_step`).
    """
    turns: list[Turn] = field(default_factory=list)
    tools: list[dict[str, Any]] = field(default_factory=list)
    """Schemas of the tools that the policy could call."""
    reason: AnyReason | None = None
    """Why the episode ended; `None` while it is running."""
    details: dict[str, Any] = field(default_factory=dict)
    """The environment's details at the end of the episode (`Env.details`), such as why an answer was wrong."""
    counts: dict[str, int] = field(default_factory=dict)
    """Numbers of tool calls, tool errors and format errors; `errors/KIND` counts the errors of one kind (`Mistake`)."""
    usage: dict[str, float] = field(default_factory=dict)
    """Usage reported by an endpoint: `prompt_tokens` (over all requests), `cached_prompt_tokens`, `completion_tokens`,
    and `cost` if it has prices."""
    search: dict[str, float] = field(default_factory=dict)
    """Total cost of the search that chose this line of play (`rollout.lookahead.cost`); empty without a search."""
    tokens: Tokens | None = None
    """Absent if the policy speaks only in messages."""
    seconds: float = 0.0
    """Wall-clock duration of the episode."""
    error: str | None = None
    """The error of a failed episode."""
    component: str | None = None
    """The component that failed: `making` (the environment), `reset`, `step`, `policy`, `feedback`, `worker` or
    `task`."""

    @property
    def ending(self) -> Ending | None:
        """The kind of ending."""
        return None if self.reason is None else self.reason.ending

    @property
    def failed(self) -> bool:
        """Whether the task or the infrastructure broke. Such an episode says nothing about the model."""
        return self.ending is Ending.FAILED

    @property
    def model_turns(self) -> list[Turn]:
        """The model's turns, without the grading of an interrupted episode."""
        return [turn for turn in self.turns if turn.action is not None]

    @property
    def cut_turns(self) -> list[bool]:
        """For each of the model's turns, whether a limit of tokens or time cut it off."""
        return [turn.is_cut_off for turn in self.model_turns]

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
        """Whether the task was solved. Always false for a failed episode, whatever its turns earned."""
        return not self.failed and self.outcome >= SOLVED_AT

    @property
    def reward(self) -> float:
        """Total reward that the environment paid in the episode."""
        return sum(turn.reward for turn in self.turns)

    @property
    def messages(self) -> list[Message]:
        """The whole conversation."""
        messages = list(self.opening)
        for turn in self.turns:
            if turn.action is not None:
                messages.append(action_message(turn.action))
            messages += turn.observation
        return messages

    def to_dict(self) -> dict[str, Any]:
        """Return the trajectory as JSON data."""
        data = {"schema": SCHEMA_VERSION, **{f.name: getattr(self, f.name) for f in fields(self)}}
        data["turns"] = [_turn_data(turn) for turn in self.turns]
        data["tags"] = list(self.tags)
        data["reason"] = None if self.reason is None else reason_data(self.reason)
        data["tokens"] = None if self.tokens is None else asdict(self.tokens)
        return data

    @classmethod
    def from_dict(cls, data: Any) -> Trajectory:
        """Rebuild a trajectory from the output of `to_dict`. The data is not trusted.

        Raises:
            UsageError: The schema version is not supported, or a field is missing, unknown or wrong.
        """
        if type(data) is dict and (version := data.get("schema")) != SCHEMA_VERSION:
            if version is None:
                raise UsageError("it has no schema version, which every trajectory has")
            raise UsageError(
                f"this trajectory has schema version {excerpt_of(version)}; this release reads {SCHEMA_VERSION}"
            )
        check_fields(data, _FIELDS, _REQUIRED, "a trajectory")
        values = {**data}
        del values["schema"]
        values["turns"] = [_turn(turn, number) for number, turn in enumerate(values.get("turns", ()), start=1)]
        values["tokens"] = _tokens(values.get("tokens"))
        values["reason"] = None if values.get("reason") is None else reason_from(values["reason"])
        values["tags"] = tuple(values.get("tags", ()))
        _check_spans(values["turns"], values["tokens"])
        return cls(**values)


def logged_step(training_step: int | None) -> int | None:
    """Return the number of a training step in logs, tables and the viewer, which count from 1."""
    return None if training_step is None else training_step + 1


def _turn_data(turn: Turn) -> dict[str, Any]:
    span = None if turn.span is None else list(turn.span)
    return {**vars(turn), "span": span, "times": None if turn.times is None else turn.times.to_dict()}


def _is_reason(value: Any) -> bool:
    try:
        reason_from(value)
    except (ValueError, TypeError):
        return False
    return True


_FIELDS: Rules = {
    "schema": (lambda value: True, ""),  # already compared
    **dict.fromkeys(("id", "env_id", "task_id", "task_hash", "policy", "split"), (is_text, "text")),
    "seed": (or_null(is_count), "a whole number from 0 or null"),
    "opening": (is_messages, "a list of chat messages"),
    "env_kwargs": (is_object, "an object"),
    "difficulty": (is_count, "a whole number from 0"),
    "tags": (list_of(str), "a list of texts"),
    "attempt": (is_count, "a whole number from 0"),
    "training_step": (or_null(is_count), "a whole number from 0 or null"),
    "turns": (list_of(dict), "a list of objects"),
    "tools": (list_of(dict), "a list of objects"),
    "reason": (or_null(_is_reason), "the name of an ending, an object with its name and kind, or null"),
    "details": (is_object, "an object"),
    "counts": (object_of(is_count), "an object of whole numbers from 0"),
    "usage": (object_of(is_number), "an object of finite numbers"),
    "search": (object_of(is_number), "an object of finite numbers"),
    "tokens": (or_null(is_object), "an object or null"),
    "seconds": (is_number, "a finite number"),
    "error": (or_null(is_text), "text or null"),
    "component": (or_null(is_text), "text or null"),
}
_TURN_FIELDS: Rules = {
    "action": (lambda value: value is None or type(value) in (str, dict), "text, a message or null"),
    "observation": (is_messages, "a list of chat messages"),
    "rewards": (object_of(is_number), "an object of finite numbers"),
    "reward": (is_number, "a finite number"),
    "feedback": (is_count, "a whole number from 0"),
    "span": (or_null(lambda value: is_counts(value) and len(value) == 2), "[start, end] or null"),
    "times": (or_null(is_object), "an object or null"),
    "finish": (lambda value: value is None or value in get_args(Finish), "stop, length, time or null"),
}
_TOKEN_FIELDS: Rules = {
    "prompt_ids": (is_counts, "a list of whole numbers from 0"),
    "completion_ids": (is_counts, "a list of whole numbers from 0"),
    "loss_mask": (lambda value: list_of(int)(value) and set(value) <= {0, 1}, "a list of 0 and 1"),
    "logprobs": (is_numbers, "a list of finite numbers"),
    "versions": (lambda value: list_of(int)(value) and min(value, default=0) >= -1, "a list of whole numbers from -1"),
}
_REQUIRED = required_fields(Trajectory) | {"schema"}
_TURN_REQUIRED = required_fields(Turn)


def _turn(data: Mapping[str, Any], number: int) -> Turn:
    check_fields(data, _TURN_FIELDS, _TURN_REQUIRED, f"turn {number}")
    span, times = data.get("span"), data.get("times")
    turn_times = None if times is None else TurnTimes.from_dict(times, f"'times' of turn {number}")
    return Turn(**{**data, "span": None if span is None else (span[0], span[1]), "times": turn_times})


def _tokens(data: dict[str, Any] | None) -> Tokens | None:
    if data is None:
        return None
    check_fields(data, _TOKEN_FIELDS, frozenset(_TOKEN_FIELDS), "'tokens'")
    count = len(data["completion_ids"])
    for name in ("loss_mask", "logprobs", "versions"):
        if len(data[name]) != count:
            raise UsageError(f"'tokens' has {count} completion_ids but {len(data[name])} {name}")
    return Tokens(**data)


def _check_spans(turns: Sequence[Turn], tokens: Tokens | None) -> None:
    """Raise `UsageError` unless the turns' spans are in order and lie within the completion."""
    reached, count = 0, 0 if tokens is None else len(tokens.completion_ids)
    for number, turn in enumerate(turns, start=1):
        if turn.span is None:
            continue
        start, end = turn.span
        if not reached <= start <= end <= count:
            raise UsageError(
                f"the span of turn {number}, [{start}, {end}], does not lie between the turn before it, which ends at "
                f"{reached}, and the {count} completion tokens"
            )
        reached = end


BEGINNING = f'{{"schema": {SCHEMA_VERSION}, "id": "'.encode()
"""How a line of a trajectory begins, as `write_jsonl` writes it."""


def write_jsonl(path: str | Path, trajectories: Iterable[Trajectory], *, append: bool = False) -> tuple[int, int]:
    """Write trajectories, one JSON object per line. Appending first removes a last line that a crash cut off.

    Returns:
        Offset and length of the written bytes in the file; meaningless for a pipe or a device.

    Raises:
        UsageError: The file cannot be written, or is not one of trajectories; an append keeps its previous contents.
    """
    path = Path(path)
    length = 0
    try:
        if append:
            mend_last_line(path, BEGINNING)
        with path.open("ab" if append else "wb") as file:
            offset = file.tell() if file.seekable() else 0
            for trajectory in trajectories:
                # ASCII escapes preserve lone surrogates, which models do produce.
                length += file.write(json.dumps(trajectory.to_dict(), allow_nan=False).encode() + b"\n")
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"cannot write {str(path)!r}: it could not be read back: {error}") from error
    return offset, length


def read_jsonl(path: str | Path) -> Iterator[Trajectory]:
    """Read trajectories. A last line that a crash cut off is skipped with a warning; any other bad line is an error.

    Raises:
        UsageError: The file cannot be read, or a line is not a trajectory; the message names file and line.
    """
    for where, data in json_lines(Path(path), "a trajectory", allow_torn=True):
        try:
            trajectory = Trajectory.from_dict(data)
        except UsageError as error:
            raise UsageError(f"{where}: {error}") from error
        yield trajectory
