"""`ResultsFolder`: the results of policies on suites, and everything needed to read, continue and repeat them.

    results.json        a summary for each policy and entry; the same for the same seeds
    run.json            commands, versions, hardware and times
    trajectories/       one JSONL file for each policy and entry, each with its index and its annotations

`results.json` is written after each pair, so that an interrupted evaluation keeps the complete ones.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from agentgym import __version__
from agentgym.base.errors import UsageError
from agentgym.base.fields import Rules, check_fields, is_count, is_object, is_text, list_of
from agentgym.base.output_files import check_folder, held
from agentgym.eval.summary import Summary

_PACKAGES = ("gymnasium", "numpy", "duckdb", "torch", "transformers", "trl", "vllm", "playwright", "tantivy", "docker")


def provenance(command: Sequence[str]) -> dict[str, Any]:
    """Return the command, the time, the versions of relevant packages and the machine, as JSON data."""
    return {
        "command": shlex.join(map(_without_secrets, command)),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "agentgym": __version__,
        "python": platform.python_version(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name)) is not None},
        "machine": {"system": platform.platform(), "cpu": cpu(), "cores": os.cpu_count(), "gpu": _gpu()},
    }


def _without_secrets(word: str) -> str:
    """Return a word of a command without passwords in URLs, HTTP headers, and keys in place of variable names."""
    name, equals, value = word.partition("=")
    if name.startswith("--") and equals:
        return f"{name}={_without_secrets(value)}"
    if name == "headers" or (name == "key" and not value.isidentifier()):
        return f"{name}{equals}***"
    without_password = re.sub(r"://[^/\s]*@", "://***@", word)
    return re.sub(r"(\?)[^\s?]*$", r"\1***", without_password) if "://" in word else without_password


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cpu() -> str:
    """Return the name of the processor."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor()


def _gpu() -> str | None:
    """Return the name of the first GPU, if torch is already imported."""
    torch = sys.modules.get("torch")
    return torch.cuda.get_device_name(0) if torch is not None and torch.cuda.is_available() else None


SCHEMA_VERSION = 1
RESULTS, RUN, TRAJECTORIES = "results.json", "run.json", "trajectories"
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
    def running(self, command: list[str]) -> Iterator[None]:
        """Lock the folder, and record the command and its start and end in `run.json`."""
        with held(self.path):
            self._results = self._read()  # another process may have written in the meantime
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
        self._write(RESULTS, self._results)

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

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a file atomically, so that neither a reader nor a crash leaves half of it."""
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


def _runs(path: Path) -> list[Any]:
    runs = (_read(path) or {"runs": []}).get("runs")
    if not isinstance(runs, list):
        raise UsageError(f"{path}: not a file of results: it has no list of runs")
    return cast(list[Any], runs)


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
