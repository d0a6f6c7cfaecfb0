"""`agentgym export`: writes trajectory files and folders of results as one Parquet table of episodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from agentgym.errors import UsageError, require
from agentgym.outputs import check_file
from agentgym.results.columns import ResultsPlace
from agentgym.results.folder import TRAJECTORIES, read_results
from agentgym.results.index import TrajectoryIndex
from agentgym.results.parquet import write_parquet
from agentgym.terminal.printing import console
from agentgym.trajectory import Trajectory


@dataclass
class Export:
    """What is read, and what was found there.

    Args:
        places: Files of trajectories, and folders of results.
    """

    places: Sequence[Path]
    failed: int = 0
    """Episodes that failed, of those read so far."""
    unfinished: list[Path] = field(default_factory=list)
    """Files of folders whose evaluation has not ended; they are left out."""

    def episodes(self) -> Iterator[tuple[Trajectory, ResultsPlace]]:
        """Yield each episode once, in the order of the files. Of several tries, the last one counts.

        Raises:
            UsageError: A place cannot be read.
        """
        for file, played in [found for place in self.places for found in self._files(place)]:
            index = TrajectoryIndex.open(file)
            for trajectory in index.read_all(index.entries[position] for position in index.latest()):
                self.failed += trajectory.failed
                yield trajectory, played

    def _files(self, place: Path) -> Iterator[tuple[Path, ResultsPlace]]:
        if not place.is_dir():
            yield place, ResultsPlace()
            return
        found = read_results(place)
        versions = {suite["name"]: suite["version"] for suite in found["suites"]}
        files = {place / row["trajectories"]: row for row in found["results"]}
        for file, row in files.items():
            suite = row["suite"] if row["suite"] in versions else None  # else tasks of one environment
            yield file, ResultsPlace(suite, versions.get(suite), None if suite is None else row["entry"])
        self.unfinished += sorted(set((place / TRAJECTORIES).glob("*.jsonl")) - files.keys())


def run_export(places: Sequence[Path], out: Path) -> None:
    """Write a table and say what is in it.

    Raises:
        MissingExtra: `pyarrow` is not installed.
        UsageError: A place cannot be read, holds nothing, or the table cannot be written.
    """
    require("pyarrow", "data")
    for place in places:
        check_file(out, apart_from=place)
    is_new = out.stat().st_size == 0
    export = Export(places)
    try:
        count = write_parquet(out, _some(export.episodes()))
    except BaseException:
        if is_new:
            out.unlink(missing_ok=True)
        raise
    failed = f", {export.failed} of them failed" if export.failed else ""
    say = console()
    say.print(f"Wrote {count} episode(s){failed} to {out}.", soft_wrap=True, markup=False, highlight=False)
    for file in export.unfinished:
        say.print(f"{file} was left out: its evaluation has not ended.", soft_wrap=True, markup=False, highlight=False)


def _some(episodes: Iterator[tuple[Trajectory, ResultsPlace]]) -> Iterator[tuple[Trajectory, ResultsPlace]]:
    """Return the same episodes. Raises `UsageError` if there is none."""
    first = next(episodes, None)
    if first is None:
        raise UsageError("there is no finished episode to export")
    return chain([first], episodes)
