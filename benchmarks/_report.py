"""Helpers of all benchmarks: running contenders in turns, timing, and recording results and the machine."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from agentgym.results.provenance import cpu

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Claim:
    """A number and the goal it should reach. A claim that does not hold stays in the file, as the to-do list."""

    claim: str
    value: float
    op: Literal[">=", "<="]
    goal: float

    @property
    def holds(self) -> bool:
        return self.value >= self.goal if self.op == ">=" else self.value <= self.goal


def interleaved(runs: int, contenders: Mapping[str, Callable[[], float]]) -> list[dict[str, Any]]:
    """Run all contenders in turns, so that other load on the machine affects all alike; one row per run."""
    rows: list[dict[str, Any]] = []
    for run in range(runs):
        for name, measure in contenders.items():
            rows.append({"run": run, "name": name, "steps_per_s": round(measure(), 1)})
            print(f"run {run + 1}/{runs}  {name:28} {rows[-1]['steps_per_s']:>12,.0f} steps/s", file=sys.stderr)
    return rows


def median_ratio(rows: Sequence[Mapping[str, Any]], name: str, base: str, rate: str = "steps_per_s") -> float:
    """Return the median over runs of `name`'s rate divided by `base`'s in the same run."""
    rates: dict[tuple[int, str], float] = {(row["run"], row["name"]): row[rate] for row in rows}
    runs = sorted({run for run, _ in rates})
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
        name: Name of the benchmark's module.
        rows: All single runs, so that medians and spreads can be recomputed.
        claims: The claims that the runs support or refute.
        packages: Installed distributions whose versions matter, besides our own.
        more_versions: Versions that live elsewhere, e.g. in a peer's own environment.
        results: Another folder to write to, for a trial.
    """
    versions = {package: _version(package) for package in ("agentgym-suite", *packages)}
    content = {
        "benchmark": name,
        "command": " ".join(["python -m", f"benchmarks.{name}", *map(_without_path, sys.argv[1:])]),
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


def read_all() -> dict[str, list[Claim]]:
    """Return the claims of every result file, by benchmark. From files of another form, only the claims are read."""
    found: dict[str, list[Claim]] = {}
    for path in sorted(RESULTS.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        found[path.stem] = [
            Claim(entry["claim"], entry["value"], entry["op"], entry["goal"]) for entry in content.get("claims", ())
        ]
    return found


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _without_path(argument: str) -> str:
    """Remove paths, so that result files reveal nothing about the machine."""
    return "PATH" if os.sep in argument else argument
