"""The records of a run survive a crash."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.trainers.logbook.records import COMPLETE, MetricsFile, last_checkpoint, read_metrics
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.train]


def written(path: Path, steps: int, cut: str = "") -> None:
    path.write_text("".join(json.dumps({"step": step + 1}) + "\n" for step in range(steps)) + cut)


def steps(path: Path) -> list[int]:
    return [line["step"] for line in read_metrics(path)]


@each_row("resume_at, steps_before", [(None, []), (0, []), (2, [1, 2]), (9, [1, 2, 3])])
def test_a_resumed_run_forgets_the_steps_it_does_again(tmp_path: Path, resume_at: int | None, steps_before: list[int]):
    path = tmp_path / "m.jsonl"
    written(path, 3, cut='{"step": 4, "re')
    file = MetricsFile(path, resume_at=resume_at)
    file.write({"step": 7})
    file.close()
    assert steps(path) == [*steps_before, 7]


def test_a_line_that_was_cut_off_is_passed_over(tmp_path: Path):
    written(tmp_path / "m.jsonl", 2, cut='{"step"')
    assert steps(tmp_path / "m.jsonl") == [1, 2]
    assert steps(tmp_path / "none.jsonl") == []


def checkpoint(folder: Path, step: int, *, complete: bool = True) -> Path:
    created = folder / f"checkpoint-{step}"
    created.mkdir()
    if complete:
        (created / COMPLETE).touch()
    return created


def test_the_newest_complete_checkpoint_is_found_by_its_number(tmp_path: Path):
    for step in (9, 10, 100):
        checkpoint(tmp_path, step)
    checkpoint(tmp_path, 200, complete=False)
    (tmp_path / "checkpoint-best").mkdir()
    newest = last_checkpoint(tmp_path)
    assert newest == tmp_path / "checkpoint-100"
    assert last_checkpoint(tmp_path / "none") is None
