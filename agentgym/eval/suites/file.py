"""The YAML file of a suite, read strictly: an unknown key or a wrong value is an error that names file and place."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as validated

from agentgym.base import strict_json, yaml12
from agentgym.base.choices import nearest
from agentgym.base.errors import UsageError

METRICS = {
    "success": "share of the tasks that were solved, with its interval",
    "pass@k": "chance that one of k attempts solves a task (unbiased)",
    "pass^k": "chance that all of k attempts solve a task",
    "reward": "mean reward of an episode",
    "channels": "mean of each reward channel",
    "turns": "mean number of turns",
    "tokens": "mean number of tokens, sampled and observed",
    "tool_calls": "mean number of tool calls",
    "tool_errors": "share of tool calls that returned an error, by category",
    "endings": "how episodes ended",
    "time": "seconds of an episode",
    "cost": "what the tokens cost, where prices are known",
    "figures": "the environment's own metrics",
}
"""Maps the name of each metric to its meaning."""


_T = TypeVar("_T")
_STRICT = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)
_CountFrom1 = Annotated[int, Field(ge=1)]
_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)] | None
_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][\w.-]*$", max_length=100)]


@validated(config=_STRICT, frozen=True, kw_only=True)
class LimitsPart:
    """The limits of each episode: those of `agentgym.rollout.Limits` that can affect results."""

    max_new_tokens: _CountFrom1 = 512
    """Sampled tokens per turn."""
    max_tokens: _CountFrom1 | None = None
    """Sampled tokens per episode; `null` means no limit."""
    generation_timeout_s: _Seconds = 300.0
    """Seconds for one turn of the policy; `null` means no limit, here and below."""
    reset_timeout_s: _Seconds = 300.0
    """Seconds to make an environment, and seconds to reset it."""
    step_timeout_s: _Seconds = 300.0
    """Seconds for the environment's side of a turn."""
    tool_timeout_s: _Seconds = None
    """Seconds for a single tool call."""
    episode_timeout_s: _Seconds = None
    """Seconds for the whole episode."""
    retries: Annotated[int, Field(ge=0)] = 2
    """Number of retries of a failed episode."""


@validated(config=_STRICT, frozen=True, kw_only=True)
class SamplingPart:
    """Sampling settings for policies with weights or behind an endpoint."""

    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1.0
    """Sampling temperature; 0 is greedy."""


@validated(config=_STRICT, frozen=True, kw_only=True)
class EntryPart:
    """One environment of a suite and how its tasks are played."""

    env: Annotated[str, Field(min_length=1)]
    """An id such as `sql`, or `module:Class`."""
    name: _Name | None = None
    """Name of the entry, unique in the suite; by default the short id of the environment."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Arguments of the environment."""
    data: dict[str, _Name] = field(default_factory=dict)
    """Maps an argument that takes a file or folder to the name under which the user passes its path."""
    attempts: _CountFrom1 = 1
    """Trajectories per task."""
    limits: LimitsPart = field(default_factory=LimitsPart)
    dialect: str | None = None
    """The format of tool calls; `null` leaves it to the policy."""
    sampling: SamplingPart = field(default_factory=SamplingPart)
    metrics: list[str] = field(default_factory=lambda: ["success"])
    """Names of the metrics to report (`agentgym.eval.suites.file`)."""


@validated(config=_STRICT, frozen=True, kw_only=True)
class SuiteFile:
    """The contents of a suite's file, with the defaults filled in."""

    name: _Name
    version: _CountFrom1
    """Increased whenever the tasks, or how they are played, change."""
    description: str = ""
    entries: Annotated[list[EntryPart], Field(min_length=1)]


DEFAULTS = ("attempts", "limits", "dialect", "sampling", "metrics")
"""Fields of entries that the suite's `defaults` may set for all of them."""
_NESTED = ("limits", "sampling")
_SUITE: TypeAdapter[SuiteFile] = TypeAdapter(SuiteFile)
_ENTRY: TypeAdapter[EntryPart] = TypeAdapter(EntryPart)
_PARTS = {"limits": LimitsPart, "sampling": SamplingPart, "entries": EntryPart}


def read_suite_file(path: Path) -> SuiteFile:
    """Read the YAML file of a suite.

    Raises:
        UsageError: The file cannot be read, or a key or value is wrong; the message names the place.
    """
    return checked(read_map(path), str(path))


def read_map(path: Path) -> dict[str, Any]:
    """Return the unchecked contents of a suite's file. Raises `UsageError` unless it is a map."""
    values = yaml12.read(path, "the suite")
    if not isinstance(values, dict):
        raise UsageError(f"{path}: a suite is a map with the keys name, version and entries")
    return values


def checked(values: Mapping[str, Any], source: str) -> SuiteFile:
    """Return the checked contents of a suite's file. Raises `UsageError`, whose message starts with `source`."""
    contents = {key: value for key, value in values.items() if key != "defaults"}
    defaults = _checked_defaults(values.get("defaults", {}), source)
    entries = contents.get("entries")
    if isinstance(entries, list):
        contents["entries"] = [_merged(defaults, entry) if isinstance(entry, dict) else entry for entry in entries]
    suite = _validated(_SUITE, contents, source)
    _check_names(suite, source)
    return suite


def _checked_defaults(defaults: Any, source: str) -> Mapping[str, Any]:
    if not isinstance(defaults, dict):
        raise UsageError(f"{source}: defaults must be a map of fields of entries, not {defaults!r}")
    for name in defaults:
        if name not in DEFAULTS:
            raise UsageError(
                f"{source}: defaults cannot set {name!r}{nearest(name, DEFAULTS)} They can set: {', '.join(DEFAULTS)}"
            )
    _validated(_ENTRY, {"env": "any", **defaults}, source, "defaults")
    return defaults


def _validated(adapter: TypeAdapter[_T], values: Any, source: str, *place: str) -> _T:
    """Return values as a part of a suite. Raises `UsageError` that names the file and the place in it."""
    try:
        # In JSON mode, a map may stand for a dataclass even though values are checked strictly.
        return adapter.validate_json(strict_json.write(values))
    except ValidationError as error:
        raise UsageError(f"{source}: {_problem(error, place)}") from None
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{source}: the values of a suite must be texts, numbers, lists or maps: {error}") from error


def _merged(defaults: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry completed with the defaults; limits and sampling are merged field by field."""
    merged = {**defaults, **entry}
    for name in _NESTED:
        parts = [part for part in (defaults.get(name), entry.get(name)) if part is not None]
        if parts and all(isinstance(part, dict) for part in parts):
            merged[name] = {key: value for part in parts for key, value in part.items()}
    return merged


def _problem(error: ValidationError, within: Sequence[str]) -> str:
    first = error.errors(include_url=False)[0]
    path = [*within, *first["loc"]]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        keys = _keys_at(path[:-1])
        return f"unknown key {place!r}{nearest(path[-1], keys)} There are: {', '.join(keys)}"
    if first["type"] in ("missing", "missing_argument"):
        return f"the key {place!r} is missing"
    return f"{place}: {first['msg']}, not {first['input']!r}"


def _keys_at(place: Sequence[Any]) -> list[str]:
    """Return the valid keys at a place in the file."""
    names = [part for part in place if isinstance(part, str)]
    part = _PARTS.get(names[-1], SuiteFile) if names else SuiteFile
    own = [item.name for item in dataclasses.fields(part)]
    return [*own, "defaults"] if part is SuiteFile else own


def _check_names(suite: SuiteFile, source: str) -> None:
    """Raise `UsageError` for a duplicate name, an argument that appears twice, or an unknown metric."""
    names: set[str] = set()
    for index, entry in enumerate(suite.entries):
        place = f"{source}: entries[{index}]"
        if (name := name_of(entry)) in names:
            raise UsageError(f"{place}: another entry is named {name!r}; set a different name (name: ...)")
        names.add(name)
        if twice := sorted(set(entry.arguments) & set(entry.data)):
            raise UsageError(f"{place}: {twice[0]!r} is in arguments and in data; keep one of them")
        for metric in entry.metrics:
            if metric not in METRICS:
                metrics = ", ".join(METRICS)
                raise UsageError(
                    f"{place}.metrics: unknown metric {metric!r}{nearest(metric, METRICS)} There are: {metrics}"
                )


def name_of(entry: EntryPart) -> str:
    """Return the name of an entry: its own, or the short id of its environment."""
    if entry.name is not None:
        return entry.name
    short = re.sub(r"-v\d+$", "", entry.env.removeprefix("agentgym/"))
    return re.sub(r"[^\w.-]+", "-", short)
