"""What a table of episodes has about each: one row, with columns of fixed types. Stable, so that queries stay valid.

A number that says something about the model is null for an episode that failed, so that a mean over the column is right
without a filter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from agentgym.endings import Reason
from agentgym.mistakes import Mistake, count_of
from agentgym.results.entry import channel_totals, observed_tokens, sampled_tokens
from agentgym.trajectory import Trajectory, logged_step

SCHEMA_VERSION = 2
"""Raised when a column is renamed, removed or changes its meaning; new columns come at the end."""

EXACT = "exact"
"""The column with what other columns cannot hold."""

_WHOLE = range(-(2**63), 2**63)


class Kind(Enum):
    """The type of a column's values; every value may be null."""

    TEXT = "text"
    WHOLE = "whole number (64 bits)"
    NUMBER = "number (double)"
    YES_NO = "yes or no"
    TEXTS = "list of texts"
    NUMBERS = "map from text to number"
    WHOLES = "map from text to whole number"
    JSON = "JSON as text"


@dataclass(frozen=True)
class Played:
    """Where an episode stands in a folder of results."""

    suite: str | None = None
    suite_version: int | None = None
    entry: str | None = None


@dataclass(frozen=True)
class Column:
    """A column of the table."""

    name: str
    kind: Kind
    meaning: str
    value: Callable[[Trajectory, Played], Any]


def _unless_failed(value: Callable[[Trajectory], Any]) -> Callable[[Trajectory, Played], Any]:
    return lambda t, _: None if t.failed else value(t)


def _counted(name: str) -> Callable[[Trajectory, Played], Any]:
    return lambda t, _: t.counts.get(name)


def _used(name: str) -> Callable[[Trajectory, Played], Any]:
    return lambda t, _: t.usage.get(name)


def _name(value: object) -> str | None:
    return None if value is None else str(value)


def _mistakes(trajectory: Trajectory, _: Played) -> dict[str, int]:
    found = {kind.value: count_of(kind, trajectory.counts) for kind in Mistake}
    return {kind: count for kind, count in found.items() if count}


COLUMNS = (
    Column("id", Kind.TEXT, "id of the episode, unique for a policy and a training step", lambda t, _: t.id),
    Column("suite", Kind.TEXT, "suite that it belongs to; null outside of a folder of results", lambda _, p: p.suite),
    Column("suite_version", Kind.WHOLE, "version of the suite", lambda _, p: p.suite_version),
    Column("entry", Kind.TEXT, "entry of the suite", lambda _, p: p.entry),
    Column("env", Kind.TEXT, "id of the environment", lambda t, _: t.env_id),
    Column("env_arguments", Kind.JSON, "arguments of the environment", lambda t, _: t.env_kwargs),
    Column("policy", Kind.TEXT, "name of the policy", lambda t, _: t.policy),
    Column("task", Kind.TEXT, "id of the task", lambda t, _: t.task_id),
    Column("task_hash", Kind.TEXT, "hash of the task's content", lambda t, _: t.task_hash),
    Column("split", Kind.TEXT, "split of the task", lambda t, _: t.split),
    Column("difficulty", Kind.WHOLE, "difficulty of the task", lambda t, _: t.difficulty),
    Column("tags", Kind.TEXTS, "tags of the task", lambda t, _: list(t.tags)),
    Column("attempt", Kind.WHOLE, "number among the attempts at the task, from 0", lambda t, _: t.attempt),
    Column("seed", Kind.WHOLE, "random seed of the episode", lambda t, _: t.seed),
    Column(
        "step",
        Kind.WHOLE,
        "step of the training, from 1 as in metrics.jsonl; null outside of one",
        lambda t, _: logged_step(t.training_step),
    ),
    Column("failed", Kind.YES_NO, "whether the task or something around the model broke", lambda t, _: t.failed),
    Column("broken", Kind.YES_NO, "whether it was the task", lambda t, _: t.reason == Reason.BROKEN_TASK),
    Column(
        "success", Kind.YES_NO, "whether the task was solved; null if it failed", _unless_failed(lambda t: t.success)
    ),
    Column("ending", Kind.TEXT, "terminated, truncated or failed", lambda t, _: _name(t.ending)),
    Column("reason", Kind.TEXT, "why it ended, such as max_turns", lambda t, _: _name(t.reason)),
    Column("reward", Kind.NUMBER, "total reward; null if it failed", _unless_failed(lambda t: t.reward)),
    Column(
        "outcome", Kind.NUMBER, "total of the channel outcome; null if it failed", _unless_failed(lambda t: t.outcome)
    ),
    Column(
        "channels", Kind.NUMBERS, "total of each raw reward channel; null if it failed", _unless_failed(channel_totals)
    ),
    Column("turns", Kind.WHOLE, "turns in which the policy acted", lambda t, _: len(t.model_turns)),
    Column("tool_calls", Kind.WHOLE, "calls that named a tool", _counted("calls")),
    Column("tool_errors", Kind.WHOLE, "calls that returned an error", _counted("tool_errors")),
    Column("format_errors", Kind.WHOLE, "turns without an action that could be read", _counted("format_errors")),
    Column("mistakes", Kind.WHOLES, "errors by kind; kinds that did not occur are missing", _mistakes),
    Column("sampled_tokens", Kind.NUMBER, "tokens that the policy sampled", lambda t, _: sampled_tokens(t)),
    Column("observed_tokens", Kind.NUMBER, "tokens that it read but did not sample", lambda t, _: observed_tokens(t)),
    Column("prompt_tokens", Kind.NUMBER, "tokens of all requests to an endpoint", _used("prompt_tokens")),
    Column("cached_prompt_tokens", Kind.NUMBER, "of these, those it had cached", _used("cached_prompt_tokens")),
    Column("cost", Kind.NUMBER, "cost in the currency of the endpoint's prices", _used("cost")),
    Column("seconds", Kind.NUMBER, "duration of the episode", lambda t, _: t.seconds),
    Column("error", Kind.TEXT, "error of a failed episode", lambda t, _: t.error),
    Column("component", Kind.TEXT, "what failed, such as step or policy", lambda t, _: t.component),
    Column("details", Kind.JSON, "the environment's details at the end", lambda t, _: t.details),
    Column("messages", Kind.JSON, "the conversation, as chat messages", lambda t, _: t.messages),
    Column(EXACT, Kind.JSON, "fields whose value their column cannot hold, exactly; mostly null", lambda *_: None),
)


def row_of(trajectory: Trajectory, played: Played | None = None) -> dict[str, Any]:
    """Return the row of an episode, by column.

    Text with a lone surrogate is not UTF-8, and a whole number may be longer than 64 bits: the column then has the
    nearest that it can hold (an escape; null), and `exact` has the value itself.
    """
    row: dict[str, Any] = {}
    exact: dict[str, Any] = {}
    for column in COLUMNS:
        value = column.value(trajectory, played or Played())
        row[column.name] = held = _HOLD[column.kind](value) if value is not None else None
        if column.kind is not Kind.JSON and held != value:
            exact[column.name] = value
    if exact:
        row[EXACT] = _json(exact)
    return row


def _json(value: Any) -> str:
    # ASCII escapes keep lone surrogates.
    return json.dumps(value)


def _text(value: str) -> str:
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def _whole(value: int) -> int | None:
    return value if value in _WHOLE else None


def _number(value: float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _map(value: Mapping[str, Any], hold: Callable[[Any], Any]) -> dict[str, Any]:
    return {_text(key): hold(one) for key, one in value.items()}


_HOLD: Mapping[Kind, Callable[[Any], Any]] = {
    Kind.TEXT: _text,
    Kind.WHOLE: _whole,
    Kind.NUMBER: _number,
    Kind.YES_NO: bool,
    Kind.TEXTS: lambda value: list(map(_text, value)),
    Kind.NUMBERS: lambda value: _map(value, _number),
    Kind.WHOLES: lambda value: _map(value, _whole),
    Kind.JSON: _json,
}
