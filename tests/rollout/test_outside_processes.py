"""Environments that damage their process or event loop fail only their own episodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from agentgym.core.endings import Reason
from agentgym.core.trajectory import Trajectory
from agentgym.rollout import EnvFactory
from tests.counter_env import groups
from tests.rollout_cases import play_groups
from tests.waiting import eventually

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentgym.core.foreign.UNHEARD_S", 0.05)


def play(
    name: str, workers: str, count: int = 3, policy: Any = None, arguments: Any = None, **limits: Any
) -> list[Trajectory]:
    factory = EnvFactory(name if ":" in name else f"tests.rollout.outside_envs:{name}", arguments or {})
    return play_groups(factory, groups(count), policy, workers, **limits)


def content(trajectory: Trajectory) -> Any:
    """Return the part of a trajectory that is the same in all workers, after checking that it can be stored."""
    Trajectory.from_dict(json.loads(json.dumps(trajectory.to_dict(), allow_nan=False)))
    turns = [(turn.action, turn.observation, turn.rewards) for turn in trajectory.turns]
    return trajectory.opening, turns, trajectory.reason, trajectory.details


@pytest.mark.parametrize("workers", ["inline", "threads", "processes"])
def test_environments_cannot_stop_the_rollouts_event_loop(workers: str):
    for name in ("Stopping", "Exiting"):
        assert [t.reason for t in play(name, workers)] == [Reason.ANSWERED] * 3, name


def test_an_error_without_a_text_is_reported_at_once():
    trajectories = play("Muted", "processes", step_timeout_s=None)
    assert [(t.reason, t.component) for t in trajectories] == [(Reason.INFRASTRUCTURE, "step")] * 3
    assert "Mute" in str(trajectories[0].error)


@pytest.mark.parametrize("name", ["Locked", "Editing"])
def test_the_record_of_an_environment_is_the_same_in_every_process(name: str):
    here, there = ([content(t) for t in play(name, workers)] for workers in ("threads", "processes"))
    assert here == there
    assert "changed" not in str(here)


def test_tasks_that_kill_their_process_fail_no_other_episode(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("agentgym.rollout.streams.LOST_WORKERS", 3)
    trajectories = play("Deadly", "processes", 20, max_in_flight=8)
    assert [t.component for t in trajectories] == ["worker" if i % 5 == 0 else None for i in range(20)]


def test_the_programs_of_an_environment_end_with_its_process(tmp_path: Path):
    trajectories = play("Leaving", "processes", 2, arguments={"folder": str(tmp_path)}, step_timeout_s=2.0)
    assert [t.reason for t in trajectories] == [Reason.STEP_TIME] * 2
    programs = [int(file.name) for file in tmp_path.iterdir()]
    assert len(programs) == 2
    assert eventually(lambda: not any(map(psutil.pid_exists, programs)))
