"""`ResultsFolder`: the results of policies on suites, and everything needed to read, continue and repeat them.

    results.json        what came out: a summary for each policy and entry; the same for the same seeds
    run.json            how it was made: commands, versions, hardware, times
    trajectories/       one JSONL file for each policy and entry, each with its index and its annotations

`results.json` is written after each pair, so that an interrupted evaluation has those that are complete.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from agentgym.errors import UsageError
from agentgym.records.fields import Rules, check_fields, is_count, is_object, is_text, list_of
from agentgym.results.outputs import check_folder, held
from agentgym.results.provenance import provenance
from agentgym.summary import Summary

SCHEMA_VERSION = 1
RESULTS, RUN, TRAJECTORIES = "results.json", "run.json", "trajectories"
_TIMES = (
    *("seconds", "seconds_per_episode", "seconds_median", "seconds_p95"),
    *("generation_seconds", "environment_seconds", "replayed_turns"),
)
"""Fields of a summary that differ from run to run; they are in `run.json`. Which environment is nearest to a line of
play depends on which is free, and so does how much of it a search plays again."""


@dataclass(frozen=True)
class Plan:
    """What decides the results of a folder: a run that continues it must have the same."""

    suites: tuple[Mapping[str, Any], ...]
    """Name, version and content hash of each suite."""
    seed: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What else was chosen for all policies, such as a number of tasks."""

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return {"suites": [dict(suite) for suite in self.suites], "seed": self.seed, "settings": dict(self.settings)}


class ResultsFolder:
    """A folder of results that is being written.

    Args:
        path: The folder; made if needed.
        plan: What decides the results.

    Raises:
        UsageError: The folder cannot be written, or holds results of another plan.
    """

    def __init__(self, path: Path, plan: Plan):
        path = path.absolute()  # an environment may change the working directory
        self.path, self._plan = path, plan
        check_folder(path)
        (path / TRAJECTORIES).mkdir(exist_ok=True)
        self._results = self._found()

    @contextmanager
    def running(self, command: list[str]) -> Iterator[None]:
        """Hold the folder against other processes, and note in `run.json` how long it is worked on by what command."""
        with held(self.path):
            self._results = self._found()  # another process may have written until now
            started = provenance(command)
            runs = [*_runs(self.path / RUN), started]
            self._write(RUN, {"schema": SCHEMA_VERSION, "runs": runs})
            self._write(RESULTS, self._results)
            try:
                yield
            finally:
                started["ended"] = provenance([])["started"]
                self._write(RUN, {"schema": SCHEMA_VERSION, "runs": runs})

    def file_of(self, suite: str, entry: str, policy: str) -> Path:
        """Return the trajectory file of a policy on an entry."""
        return self.path / TRAJECTORIES / f"{_slug(suite)}--{_slug(entry)}--{_slug(policy)}.jsonl"

    def keep(self, suite: str, entry: str, policy: str, summary: Summary) -> None:
        """Keep the summary of a policy on an entry, in place of an earlier one."""
        row = {
            "suite": suite,
            "entry": entry,
            "policy": policy,
            "trajectories": str(self.file_of(suite, entry, policy).relative_to(self.path)),
            "summary": _without_times(summary.to_dict()),
        }
        rows = [other for other in self._results["results"] if _pair(other) != _pair(row)]
        self._results["results"] = sorted([*rows, row], key=_pair)
        self._write(RESULTS, self._results)

    def _found(self) -> dict[str, Any]:
        """Return the results so far. Raises `UsageError` if they are of another plan."""
        if not (self.path / RESULTS).is_file():
            return {"schema": SCHEMA_VERSION, **self._plan.to_dict(), "results": []}
        found = read_results(self.path)
        self._check_same(found)
        return found

    def _check_same(self, results: Mapping[str, Any]) -> None:
        for name, given in json.loads(json.dumps(self._plan.to_dict())).items():
            recorded = results[name]
            if isinstance(recorded, dict) and isinstance(given, dict):
                recorded, given = _differing(recorded, given), _differing(given, recorded)
            if recorded != given:
                raise UsageError(
                    f"{str(self.path)!r} holds results with other {name} (then {json.dumps(recorded)}, now "
                    f"{json.dumps(given)}); choose another folder"
                )

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a file as a whole: a reader, or a crash, never finds half of it."""
        target = self.path / name
        unfinished = target.with_suffix(".tmp")
        try:
            unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
            unfinished.replace(target)
        except OSError as error:
            raise UsageError(f"cannot write {str(target)!r}: {error.strerror or error}") from error


def read_results(path: Path) -> dict[str, Any]:
    """Return the contents of a folder's `results.json`.

    Raises:
        UsageError: There is none, or it cannot be read.
    """
    found = _read(path / RESULTS)
    if found is None:
        if found := sorted(file.name for file in path.glob("eval-*.jsonl")):
            raise UsageError(f"{str(path)!r} is the folder of a training; name its files: {', '.join(found)}")
        raise UsageError(f"{str(path)!r} holds no {RESULTS}; agentgym eval --suite ... --out {path} writes one")
    check_fields(found, _RESULTS_FIELDS, frozenset(_RESULTS_FIELDS), str(path / RESULTS))
    for row in found["results"]:
        check_fields(row, _ROW_FIELDS, frozenset(_ROW_FIELDS), f"a row of {path / RESULTS}")
        if not isinstance(row["summary"].get("env_id"), str):
            raise UsageError(f"{path / RESULTS}: a summary names no environment")
    return found


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
    """Return the contents of a file of the folder, or `None` if it does not exist yet."""
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        version = found["schema"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UsageError(f"{path}: not a file of results: {error}") from error
    if version != SCHEMA_VERSION:
        raise UsageError(f"{path} has schema version {version!r}; this release reads {SCHEMA_VERSION}")
    return found


def _runs(path: Path) -> list[Any]:
    runs = (_read(path) or {"runs": []}).get("runs")
    if not isinstance(runs, list):
        raise UsageError(f"{path}: not a file of results: it has no list of runs")
    return cast(list[Any], runs)


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a map that the other one does not have in the same way."""
    return {name: value for name, value in one.items() if name not in other or other[name] != value}


def _without_times(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: _without_times(value) for name, value in values.items() if name not in _TIMES}
    return values


def _pair(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["suite"], row["entry"], row["policy"]


def _slug(name: str) -> str:
    """Return a name as part of a file's name; a hash keeps apart what looks alike then."""
    plain = re.sub(r"[^A-Za-z0-9.-]+", "_", name).strip("._")[:60]
    return plain if plain == name else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
