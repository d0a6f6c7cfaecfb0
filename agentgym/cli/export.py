"""`agentgym export`: write trajectory files and folders of results as one Parquet table of episodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from agentgym.base.console import console
from agentgym.base.errors import UsageError, require
from agentgym.base.output_files import check_file
from agentgym.core.trajectory import Trajectory
from agentgym.eval.results.columns import ResultsPlace
from agentgym.eval.results.folder import TRAJECTORIES, read_results
from agentgym.eval.results.index import TrajectoryIndex
from agentgym.eval.results.parquet import write_parquet


@dataclass
class Export:
    """The files to read, with counts that grow as they are read.

    Args:
        places: Files of trajectories, and folders of results.
    """

    places: Sequence[Path]
    failed: int = 0
    """Number of failed episodes read so far."""
    unfinished: list[Path] = field(default_factory=list)
    """Files of evaluations that have not ended; they are left out."""

    def episodes(self) -> Iterator[tuple[Trajectory, ResultsPlace]]:
        """Yield each episode once, in file order. If an episode was retried, its last attempt counts.

        Raises:
            UsageError: A file or folder cannot be read.
        """
        for file, played in [source for place in self.places for source in self._files(place)]:
            index = TrajectoryIndex.open(file)
            for trajectory in index.read_all(index.entries[position] for position in index.latest()):
                self.failed += trajectory.failed
                yield trajectory, played

    def _files(self, place: Path) -> Iterator[tuple[Path, ResultsPlace]]:
        if not place.is_dir():
            yield place, ResultsPlace()
            return
        results = read_results(place)
        versions = {suite["name"]: suite["version"] for suite in results["suites"]}
        files = {place / row["trajectories"]: row for row in results["results"]}
        for file, row in files.items():
            suite = row["suite"] if row["suite"] in versions else None  # else tasks of one environment
            yield file, ResultsPlace(suite, versions.get(suite), None if suite is None else row["entry"])
        self.unfinished += sorted(set((place / TRAJECTORIES).glob("*.jsonl")) - files.keys())


def run_export(places: Sequence[Path], out: Path) -> None:
    """Write the table and print a summary.

    Raises:
        MissingExtra: `pyarrow` is not installed.
        UsageError: A file or folder cannot be read, there is no episode, or the table cannot be written.
    """
    require("pyarrow", "data")
    for place in places:
        check_file(out, apart_from=place)
    is_new = out.stat().st_size == 0
    export = Export(places)
    try:
        count = write_parquet(out, _at_least_one(export.episodes()))
    except BaseException:
        if is_new:
            out.unlink(missing_ok=True)
        raise
    failed = f", {export.failed} of them failed" if export.failed else ""
    say = console()
    say.print(f"Wrote {count} episode(s){failed} to {out}.", soft_wrap=True, markup=False, highlight=False)
    for file in export.unfinished:
        say.print(f"{file} was left out: its evaluation has not ended.", soft_wrap=True, markup=False, highlight=False)


def _at_least_one(episodes: Iterator[tuple[Trajectory, ResultsPlace]]) -> Iterator[tuple[Trajectory, ResultsPlace]]:
    """Return the same episodes. Raises `UsageError` if they are empty."""
    first = next(episodes, None)
    if first is None:
        raise UsageError("no finished episode to export")
    return chain([first], episodes)
