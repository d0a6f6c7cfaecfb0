"""The columns of a table of episodes, with fixed types and stable names, so that queries stay valid.

Numbers that measure the model are null for failed episodes, so that a mean over the column needs no filter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from agentgym.base.errors import Mistake, count_of
from agentgym.core.endings import Reason
from agentgym.core.trajectory import Trajectory, logged_step
from agentgym.eval.results.entry import channel_totals, input_tokens, observed_tokens, sampled_tokens

SCHEMA_VERSION = 2
"""Raised when a column is renamed, removed or changes its meaning; new columns come at the end."""

EXACT = "exact"
"""The column for values that other columns cannot hold."""

_WHOLE = range(-(2**63), 2**63)


class Cell(Enum):
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
class ResultsPlace:
    """The position of an episode in a folder of results."""

    suite: str | None = None
    suite_version: int | None = None
    entry: str | None = None


@dataclass(frozen=True)
class EpisodeColumn:
    """A column of the table."""

    name: str
    kind: Cell
    meaning: str
    value: Callable[[Trajectory, ResultsPlace], Any]


def _unless_failed(value: Callable[[Trajectory], Any]) -> Callable[[Trajectory, ResultsPlace], Any]:
    return lambda t, _: None if t.failed else value(t)


def _counted(name: str) -> Callable[[Trajectory, ResultsPlace], Any]:
    return lambda t, _: t.counts.get(name)


def _used(name: str) -> Callable[[Trajectory, ResultsPlace], Any]:
    return lambda t, _: t.usage.get(name)


def _name(value: object) -> str | None:
    return None if value is None else str(value)


def _mistakes(trajectory: Trajectory, _: ResultsPlace) -> dict[str, int]:
    counts = {kind.value: count_of(kind, trajectory.counts) for kind in Mistake}
    return {kind: count for kind, count in counts.items() if count}


COLUMNS = (
    EpisodeColumn("id", Cell.TEXT, "id of the episode, unique within a policy and a training step", lambda t, _: t.id),
    EpisodeColumn("suite", Cell.TEXT, "suite of the episode; null outside a folder of results", lambda _, p: p.suite),
    EpisodeColumn("suite_version", Cell.WHOLE, "version of the suite", lambda _, p: p.suite_version),
    EpisodeColumn("entry", Cell.TEXT, "entry of the suite", lambda _, p: p.entry),
    EpisodeColumn("env", Cell.TEXT, "id of the environment", lambda t, _: t.env_id),
    EpisodeColumn("env_arguments", Cell.JSON, "arguments of the environment", lambda t, _: t.env_kwargs),
    EpisodeColumn("policy", Cell.TEXT, "name of the policy", lambda t, _: t.policy),
    EpisodeColumn("task", Cell.TEXT, "id of the task", lambda t, _: t.task_id),
    EpisodeColumn("task_hash", Cell.TEXT, "hash of the task's content", lambda t, _: t.task_hash),
    EpisodeColumn("split", Cell.TEXT, "split of the task", lambda t, _: t.split),
    EpisodeColumn("difficulty", Cell.WHOLE, "difficulty of the task", lambda t, _: t.difficulty),
    EpisodeColumn("tags", Cell.TEXTS, "tags of the task", lambda t, _: list(t.tags)),
    EpisodeColumn("attempt", Cell.WHOLE, "number among the attempts at the task, from 0", lambda t, _: t.attempt),
    EpisodeColumn("seed", Cell.WHOLE, "random seed of the episode", lambda t, _: t.seed),
    EpisodeColumn(
        "step",
        Cell.WHOLE,
        "training step, from 1 as in metrics.jsonl; null outside training",
        lambda t, _: logged_step(t.training_step),
    ),
    EpisodeColumn("failed", Cell.YES_NO, "whether the task or the infrastructure failed", lambda t, _: t.failed),
    EpisodeColumn("broken", Cell.YES_NO, "whether the task failed", lambda t, _: t.reason == Reason.BROKEN_TASK),
    EpisodeColumn(
        "success", Cell.YES_NO, "whether the task was solved; null if failed", _unless_failed(lambda t: t.success)
    ),
    EpisodeColumn("ending", Cell.TEXT, "terminated, truncated or failed", lambda t, _: _name(t.ending)),
    EpisodeColumn("reason", Cell.TEXT, "why it ended, such as max_turns", lambda t, _: _name(t.reason)),
    EpisodeColumn("reward", Cell.NUMBER, "total reward; null if failed", _unless_failed(lambda t: t.reward)),
    EpisodeColumn(
        "outcome", Cell.NUMBER, "total of the channel outcome; null if failed", _unless_failed(lambda t: t.outcome)
    ),
    EpisodeColumn(
        "channels", Cell.NUMBERS, "total of each raw reward channel; null if failed", _unless_failed(channel_totals)
    ),
    EpisodeColumn("turns", Cell.WHOLE, "turns in which the policy acted", lambda t, _: len(t.model_turns)),
    EpisodeColumn("tool_calls", Cell.WHOLE, "calls that named a tool", _counted("calls")),
    EpisodeColumn("tool_errors", Cell.WHOLE, "calls that returned an error", _counted("tool_errors")),
    EpisodeColumn("format_errors", Cell.WHOLE, "turns whose action could not be parsed", _counted("format_errors")),
    EpisodeColumn("mistakes", Cell.WHOLES, "errors by kind; kinds that did not occur are missing", _mistakes),
    EpisodeColumn("sampled_tokens", Cell.NUMBER, "tokens that the policy sampled", lambda t, _: sampled_tokens(t)),
    EpisodeColumn(
        "observed_tokens",
        Cell.NUMBER,
        "tokens that the policy read but did not sample",
        lambda t, _: observed_tokens(t),
    ),
    EpisodeColumn(
        "prompt_tokens",
        Cell.NUMBER,
        "tokens of all requests: each turn sends the conversation before it again",
        lambda t, _: input_tokens(t),
    ),
    EpisodeColumn(
        "cached_prompt_tokens", Cell.NUMBER, "prompt tokens that the endpoint had cached", _used("cached_prompt_tokens")
    ),
    EpisodeColumn("cost", Cell.NUMBER, "cost in the currency of the endpoint's prices", _used("cost")),
    EpisodeColumn("seconds", Cell.NUMBER, "duration of the episode", lambda t, _: t.seconds),
    EpisodeColumn("error", Cell.TEXT, "error of a failed episode", lambda t, _: t.error),
    EpisodeColumn("component", Cell.TEXT, "component that failed, such as step or policy", lambda t, _: t.component),
    EpisodeColumn("details", Cell.JSON, "the environment's details at the end", lambda t, _: t.details),
    EpisodeColumn("messages", Cell.JSON, "the conversation, as chat messages", lambda t, _: t.messages),
    EpisodeColumn(
        EXACT, Cell.JSON, "exact values of fields that their column cannot hold; mostly null", lambda *_: None
    ),
    EpisodeColumn(
        "cut_turns", Cell.WHOLE, "turns that a limit of tokens or time cut off", lambda t, _: sum(t.cut_turns)
    ),
)


def row_of(trajectory: Trajectory, played: ResultsPlace | None = None) -> dict[str, Any]:
    """Return the row of an episode, by column.

    Text with a lone surrogate is not UTF-8, and a whole number may exceed 64 bits: the column then holds an escape or
    null, and `exact` holds the value itself.
    """
    row: dict[str, Any] = {}
    exact: dict[str, Any] = {}
    for column in COLUMNS:
        value = column.value(trajectory, played or ResultsPlace())
        row[column.name] = cell = _CONVERTERS[column.kind](value) if value is not None else None
        if column.kind is not Cell.JSON and cell != value:
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


def _map(value: Mapping[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    return {_text(key): convert(item) for key, item in value.items()}


_CONVERTERS: Mapping[Cell, Callable[[Any], Any]] = {
    Cell.TEXT: _text,
    Cell.WHOLE: _whole,
    Cell.NUMBER: _number,
    Cell.YES_NO: bool,
    Cell.TEXTS: lambda value: list(map(_text, value)),
    Cell.NUMBERS: lambda value: _map(value, _number),
    Cell.WHOLES: lambda value: _map(value, _whole),
    Cell.JSON: _json,
}
