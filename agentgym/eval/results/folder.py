"""`ResultsFolder`: the results of policies on suites, and everything needed to read, continue and repeat them.

    results.json        a summary for each policy and entry; the same for the same seeds
    run.json            commands, versions, hardware and times
    trajectories/       one JSONL file for each policy and entry, each with its index and its annotations

`results.json` is written after each pair, so that an interrupted evaluation keeps the complete ones.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.base.fields import Rules, check_fields, is_count, is_object, is_text, list_of
from agentgym.base.output_files import check_folder, held
from agentgym.eval.results.provenance import recorded, write_json
from agentgym.eval.summary import Summary

SCHEMA_VERSION = 1
RESULTS, TRAJECTORIES = "results.json", "trajectories"
_TIMES = (
    *("seconds", "seconds_per_episode", "seconds_median", "seconds_p95"),
    *("generation_seconds", "environment_seconds", "replayed_turns"),
)
"""Fields of a summary that differ from run to run. `replayed_turns` does because a search replays in whichever
environment is free."""


@dataclass(frozen=True)
class ResultsPlan:
    """The settings that determine the results of a folder. A run can continue it only with the same plan."""

    suites: tuple[Mapping[str, Any], ...]
    """Name, version and content hash of each suite."""
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Other settings for all policies, such as a number of tasks."""

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return {"suites": [dict(suite) for suite in self.suites], "seed": self.seed, "settings": dict(self.settings)}


class ResultsFolder:
    """Writes a folder of results.

    Args:
        path: The folder; created if needed.
        plan: The settings that determine the results.

    Raises:
        UsageError: The folder cannot be written, or holds results of another plan.
    """

    def __init__(self, path: Path, plan: ResultsPlan):
        path = path.absolute()  # an environment may change the working directory
        self.path, self._plan = path, plan
        check_folder(path)
        (path / TRAJECTORIES).mkdir(exist_ok=True)
        self._results = self._read()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Lock the folder, and record the command and its start and end in `run.json`."""
        with held(self.path):
            self._results = self._read()  # another process may have written in the meantime
            with recorded(self.path, seed=self._plan.seed):
                write_json(self.path / RESULTS, self._results)
                yield

    def file_of(self, suite: str, entry: str, policy: str) -> Path:
        """Return the trajectory file of a policy on an entry."""
        return self.path / TRAJECTORIES / f"{_slug(suite)}--{_slug(entry)}--{_slug(policy)}.jsonl"

    def add(self, suite: str, entry: str, policy: str, summary: Summary) -> None:
        """Store the summary of a policy on an entry, in place of an earlier one."""
        row = {
            "suite": suite,
            "entry": entry,
            "policy": policy,
            "trajectories": str(self.file_of(suite, entry, policy).relative_to(self.path)),
            "summary": _without_times(summary.to_dict()),
        }
        rows = [other for other in self._results["results"] if _pair(other) != _pair(row)]
        self._results["results"] = sorted([*rows, row], key=_pair)
        write_json(self.path / RESULTS, self._results)

    def _read(self) -> dict[str, Any]:
        """Return the results so far. Raises `UsageError` if they belong to another plan."""
        if not (self.path / RESULTS).is_file():
            return {"schema": SCHEMA_VERSION, **self._plan.to_dict(), "results": []}
        results = read_results(self.path)
        self._check_same(results)
        return results

    def _check_same(self, results: Mapping[str, Any]) -> None:
        for name, current in json.loads(json.dumps(self._plan.to_dict())).items():
            recorded = results[name]
            if isinstance(recorded, dict) and isinstance(current, dict):
                recorded, current = _differing(recorded, current), _differing(current, recorded)
            if recorded != current:
                raise UsageError(
                    f"{str(self.path)!r} holds results with other {name} (then {json.dumps(recorded)}, now "
                    f"{json.dumps(current)}); choose another folder"
                )


def read_results(path: Path) -> dict[str, Any]:
    """Return the contents of a folder's `results.json`.

    Raises:
        UsageError: It is missing or cannot be read.
    """
    names = _read(path / RESULTS)
    if names is None:
        if names := sorted(file.name for file in path.glob("eval-*.jsonl")):
            raise UsageError(f"{str(path)!r} is the folder of a training run; name its files: {', '.join(names)}")
        raise UsageError(f"{str(path)!r} holds no {RESULTS}; agentgym eval --suite ... --out {path} writes one")
    check_fields(names, _RESULTS_FIELDS, frozenset(_RESULTS_FIELDS), str(path / RESULTS))
    for row in names["results"]:
        check_fields(row, _ROW_FIELDS, frozenset(_ROW_FIELDS), f"a row of {path / RESULTS}")
        if not isinstance(row["summary"].get("env_id"), str):
            raise UsageError(f"{path / RESULTS}: a summary names no environment")
    return names


_RESULTS_FIELDS: Rules = {
    "schema": (is_count, "a whole number"),
    "suites": (list_of(dict), "a list of suites"),
    "seed": (is_count, "a whole number"),
    "settings": (is_object, "an object"),
    "results": (list_of(dict), "a list of objects"),
}
_ROW_FIELDS: Rules = {
    **dict.fromkeys(("suite", "entry", "policy", "trajectories"), (is_text, "text")),
    "summary": (is_object, "an object"),
}


def _read(path: Path) -> dict[str, Any] | None:
    """Return the contents of a file of the folder; `None` if it does not exist."""
    if not path.is_file():
        return None
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        version = data["schema"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UsageError(f"{path}: not a file of results: {error}") from error
    if version != SCHEMA_VERSION:
        raise UsageError(f"{path} has schema version {version!r}; this release reads {SCHEMA_VERSION}")
    return data


def _differing(values: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the items that the other map lacks or has with another value."""
    return {name: value for name, value in values.items() if name not in other or other[name] != value}


def _without_times(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: _without_times(value) for name, value in values.items() if name not in _TIMES}
    return values


def _pair(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["suite"], row["entry"], row["policy"]


def _slug(name: str) -> str:
    """Return a name as part of a file name, with a hash if characters had to be replaced."""
    plain = re.sub(r"[^A-Za-z0-9.-]+", "_", name).strip("._")[:60]
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
