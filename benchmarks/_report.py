"""The harness of all benchmarks: arguments, contenders in turns, and records of results, versions and the machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from agentgym.eval.results.provenance import cpu

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Claim:
    """A number and its goal. Claims that do not hold stay in the result file."""

    claim: str
    value: float
    op: Literal[">=", "<="]
    goal: float

    @property
    def holds(self) -> bool:
        return self.value >= self.goal if self.op == ">=" else self.value <= self.goal


Contender = tuple[Mapping[str, Any], Callable[[], Mapping[str, Any]]]
"""Labels for the rows of a contender, such as its `name`, and a function that measures it once."""


def argument_parser(doc: str | None) -> argparse.ArgumentParser:
    """Return an argument parser that prints the docstring of a benchmark unchanged."""
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def in_turns(runs: Iterable[int], contenders: Sequence[Contender]) -> Iterator[dict[str, Any]]:
    """Measure all contenders once per run, so that other load on the machine affects all alike; yield the rows."""
    for run in runs:
        for labels, measure in contenders:
            row = {"run": run, **labels, **measure()}
            print(row, file=sys.stderr)
            yield row


def median_ratio(
    rows: Iterable[Mapping[str, Any]], name: str, base: str, rate: str = "steps_per_s", **labels: Any
) -> float:
    """Return the median over runs of `name`'s rate divided by `base`'s in the same run.

    Args:
        rows: Rows of all contenders.
        name: The contender whose rate is divided.
        base: The contender whose rate it is divided by.
        rate: The rate.
        labels: Labels of the rows to compare. Runs without such a row for both contenders do not count.
    """
    rates = {
        (row["run"], row["name"]): row[rate]
        for row in rows
        if rate in row and all(row[label] == value for label, value in labels.items())
    }
    runs = sorted({run for run, _ in rates if {(run, name), (run, base)} <= rates.keys()})
    return round(statistics.median(rates[run, name] / rates[run, base] for run in runs), 3)


def write(
    name: str,
    rows: Iterable[Mapping[str, Any]],
    claims: Iterable[Claim],
    *,
    packages: Sequence[str] = (),
    more_versions: Mapping[str, str] | None = None,
    results: Path = RESULTS,
) -> Path:
    """Write `results/<name>.json`.

    Args:
        name: Name of the result.
        rows: All single runs, so that medians and spreads can be recomputed.
        claims: The claims that the runs support or refute.
        packages: Installed distributions to record the versions of, in addition to ours.
        more_versions: Versions in other Python environments, e.g. a peer's.
        results: Another folder to write to, for a trial.
    """
    versions = {package: _version(package) for package in ("agentgym-suite", *packages)}
    benchmark = Path(sys.argv[0]).stem
    content = {
        "benchmark": benchmark,
        "command": " ".join(["python -m", f"benchmarks.{benchmark}", *map(_without_path, sys.argv[1:])]),
        "versions": {"python": platform.python_version(), **versions, **(more_versions or {})},
        "hardware": {"cpu": cpu(), "cores": len(os.sched_getaffinity(0)), "system": platform.system()},
        "rows": list(rows),
        "claims": [asdict(claim) for claim in claims],
    }
    results.mkdir(parents=True, exist_ok=True)
    path = results / f"{name}.json"
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for claim in content["claims"]:
        print(f"{claim['claim']}: {claim['value']:g} (goal {claim['op']} {claim['goal']:g})")
    return path


def earlier(name: str) -> dict[str, Any]:
    """Return the result of an earlier run, or a result without rows."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"rows": [], "versions": {}}


def claims_in(result: Mapping[str, Any]) -> list[Claim]:
    """Return the claims of a result."""
    return [Claim(**claim) for claim in result["claims"]]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _without_path(argument: str) -> str:
    """Remove paths, so that result files reveal nothing about the machine."""
    return "PATH" if os.sep in argument else argument
