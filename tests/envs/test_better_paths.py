"""No better path to a right answer is paid less, and no worse one more (`benchmarks.no_better_path_paid_less`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.core.rewards import OUTCOME
from agentgym.envs.web import WebEnv
from benchmarks.no_better_path_paid_less import WORLDS, World, claims, rows_of
from tests.refusals import sampled

SMALL = {"passages": 1_000}


def check(world: World, tasks: int) -> None:
    rows = rows_of("world", world, tasks)
    assert [claim for claim in claims(rows)[:3] if not claim.holds] == [], rows
    assert all(row["tasks_solved"] for row in rows), rows


@sampled(10, 40)
@pytest.mark.parametrize("name", ["guess", "errand", "sql", "sql sqlite", "search", "search passages"])
def test_no_better_path_is_paid_less(
    name: str, count: int, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    world = WORLDS[name]
    if world.env == "search":
        monkeypatch.setenv("AGENTGYM_CACHE", str(Path(tmp_path_factory.getbasetemp()) / "pages"))
        world = World("search", {**world.kwargs, **SMALL}, world.as_good, world.worse)
    check(world, count)


@pytest.mark.real
@pytest.mark.parametrize("name", ["code", "swe"])
def test_no_better_path_of_a_programmer_is_paid_less(name: str):
    check(WORLDS[name], 6)


def test_a_solved_web_task_earns_full_marks_whatever_its_way():
    way = [{"format": 1.0, "valid": 1.0, "followed": 0.2}, {"format": 1.0, "valid": 1.0}]
    end = {OUTCOME: 1.0, "finished": 1.0, "format": 1.0, "valid": 1.0}
    full = sum(WebEnv.scheme.weights.values())
    assert WebEnv.scheme.total([*way, end | {"progress": 1.0}]) == pytest.approx(full)
    assert WebEnv.scheme.total([*way, end]) == pytest.approx(full), "an impossible task has no parts"
    assert WebEnv.scheme.total([end]) == pytest.approx(full), "a shorter way"
    assert WebEnv.scheme.total([*way, end | {OUTCOME: 0.0}]) == pytest.approx(0.02)
