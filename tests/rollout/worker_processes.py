"""The environments to play in every kind of workers, and the worker processes of this process."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import psutil
import pytest

from agentgym.core.trajectory import Trajectory
from agentgym.rollout import EnvFactory, Group
from tests.browsers import why_no_browser
from tests.rollout_cases import play_groups

CASES: list[tuple[str, dict[str, Any]]] = [
    ("agentgym/guess-v0", {}),
    ("agentgym/errand-v0", {}),
    ("agentgym/sql-v0", {}),
    ("agentgym/search-v0", {}),
    ("agentgym/code-v0", {}),
    ("agentgym/swe-v0", {}),
    ("agentgym/web-v0", {"difficulty": 1}),
    ("agentgym/miniwob-click-button-v0", {}),
]


def needs_browser(env_id: str) -> bool:
    return env_id.startswith(("agentgym/web", "agentgym/miniwob"))


in_every_environment = pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        pytest.param(
            *case,
            id=case[0],
            marks=[pytest.mark.web, pytest.mark.skipif(bool(why_no_browser()), reason=why_no_browser())]
            if needs_browser(case[0])
            else [],
        )
        for case in CASES
    ],
)


def workers_alive() -> list[psutil.Process]:
    """Return the worker processes and templates that this process has started."""
    workers = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if {"agentgym.rollout.workers.child", "agentgym.rollout.workers.template"} & {*child.cmdline()}:
                workers.append(child)
    return workers


def play_with(factory: EnvFactory, policy: Any, work: list[Group], workers: Any) -> list[Trajectory]:
    """Return the trajectories of groups, without their durations."""
    trajectories = play_groups(factory, work, policy, workers, retries=2, max_in_flight=len(work))
    return [replace(trajectory, seconds=0.0) for trajectory in trajectories]
