"""The same command completes an evaluation after a kill."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.json_lines import json_lines
from agentgym.eval.results.index import TrajectoryIndex
from agentgym.eval.suites.pinning import pin_tasks
from tests.eval.killed_evaluation import CONCURRENCY, HOLD, START_LOG
from tests.waiting import eventually

pytestmark = pytest.mark.real

EPISODES = 300
"""Enough for a stored index, which small files lack."""
MAX_STARTED = 30
"""Episodes that may start before a process is killed; all but those in flight are recorded by then."""
ROOT = Path(__file__).parents[2]
SUITE = "name: many\nversion: 1\nentries:\n  - {name: errands, env: 'tests.eval.killed_evaluation:NotedErrand'}\n"


class Evaluation:
    """The evaluation, with results in a folder of its own."""

    def __init__(self, suite: Path, out: Path):
        self.out, self.notes = out, out.with_suffix(".started")
        self.command = [sys.executable, "-m", "tests.eval.killed_evaluation", str(suite), str(out)]
        self.notes.touch()

    def finish(self) -> None:
        subprocess.run(self.command, env={**os.environ, START_LOG: str(self.notes)}, cwd=ROOT, check=True)

    def kill(self) -> int:
        """Kill a run once it has written all lines that it can, and return its process id."""
        lines = lines_of(self.file) + MAX_STARTED - CONCURRENCY
        environment = {**os.environ, START_LOG: str(self.notes), HOLD: str(MAX_STARTED)}
        with subprocess.Popen(self.command, env=environment, cwd=ROOT) as child:
            try:
                assert eventually(lambda: lines_of(self.file) >= lines)
            finally:
                os.kill(child.pid, signal.SIGKILL)
        return child.pid

    @property
    def file(self) -> Path:
        return self.out / "trajectories/many--errands--clumsy.jsonl"

    def started(self) -> list[tuple[int, str]]:
        """Return the process and the task of each started episode."""
        lines = (line.split(maxsplit=1) for line in self.notes.read_text().splitlines())
        return [(int(process), task) for process, task in lines]

    def records(self) -> list[dict[str, Any]]:
        """Return all records without times."""
        records = [data for _, data in json_lines(self.file, "a trajectory", allow_torn=True)]
        for data in records:
            data["seconds"] = 0.0
            for turn in data["turns"]:
                turn["times"] = None
        return sorted(records, key=lambda data: data["id"])


def lines_of(file: Path) -> int:
    return file.read_bytes().count(b"\n") if file.exists() else 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("killed")


@pytest.fixture(scope="module")
def suite(folder: Path) -> Path:
    path = folder / "many.yaml"
    path.write_text(SUITE)
    pin_tasks(path, "errands", "train", EPISODES)
    return path


@pytest.fixture(scope="module")
def whole(suite: Path, folder: Path) -> Evaluation:
    """An undisturbed evaluation."""
    evaluation = Evaluation(suite, folder / "whole")
    evaluation.finish()
    return evaluation


def assert_the_same(evaluation: Evaluation, whole: Evaluation) -> None:
    assert (evaluation.out / "results.json").read_bytes() == (whole.out / "results.json").read_bytes()
    assert evaluation.records() == whole.records()
    fresh = TrajectoryIndex.open(shutil.copy(evaluation.file, evaluation.out / "copy.jsonl"))
    stored = TrajectoryIndex.open(evaluation.file)
    assert [(entry.offset, entry.id, entry.reward) for entry in stored.entries] == [
        (entry.offset, entry.id, entry.reward) for entry in fresh.entries
    ]
    assert list(stored) == list(fresh)


def test_a_killed_evaluation_continues_to_the_same_files_without_repeats(suite: Path, folder: Path, whole: Evaluation):
    evaluation = Evaluation(suite, folder / "killed")
    recorded: dict[int, set[str]] = {}
    for _ in range(3):
        killed = evaluation.kill()
        recorded[killed] = {data["task_id"] for data in evaluation.records()}
    evaluation.finish()
    assert_the_same(evaluation, whole)
    assert len(evaluation.records()) == EPISODES

    done: set[str] = set()
    for process in dict.fromkeys(process for process, _ in evaluation.started()):
        started = [task for other, task in evaluation.started() if other == process]
        assert not done & set(started), "an episode that was recorded is not played again"
        done |= recorded.get(process, set())
    times = Counter(task for _, task in evaluation.started())
    assert len(times) == EPISODES
    assert times.total() <= EPISODES + 3 * CONCURRENCY, "only what was being played is started again"
    assert Counter(task for _, task in whole.started()).total() == EPISODES
