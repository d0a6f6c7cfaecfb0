"""Scripts may block or end their episode in all workers."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.errors import BrokenTask, InfrastructureError, TaskError, ToolError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.env import Env
from agentgym.core.policy import EndEpisode, ScriptedPolicy, solution_player
from agentgym.core.task import Task
from agentgym.rollout import EnvFactory
from agentgym.rollout.workers.processes import ProcessWorkers
from tests.counter_env import groups
from tests.rollout_cases import play_groups

pytestmark = pytest.mark.real

COUNTER = EnvFactory("tests.counter_env:Counter", {})
PLAYERS = 4


@dataclass(frozen=True)
class Meeting:
    """A script that blocks until all players have created a file in a folder."""

    folder: Path

    def __call__(self, env: Env, task: Task) -> Generator[Any, Any, None]:
        (self.folder / task.id.replace("/", "-")).touch()
        while len(list(self.folder.iterdir())) < PLAYERS:
            time.sleep(0.01)
        yield from solution_player(env, task)


@pytest.mark.parametrize("workers", ["threads", "one process"])
def test_scripts_can_wait_for_each_other(tmp_path: Path, workers: str):
    worker_setting = "threads" if workers == "threads" else ProcessWorkers(COUNTER, PLAYERS, processes=1)
    limits: dict[str, Any] = {"max_in_flight": PLAYERS, "generation_timeout_s": 30}
    trajectories = play_groups(COUNTER, groups(PLAYERS), ScriptedPolicy(Meeting(tmp_path)), worker_setting, **limits)
    assert [(trajectory.error, trajectory.success) for trajectory in trajectories] == [(None, True)] * PLAYERS


def gives_up(env: Env, task: Task) -> Generator[Any, Any, None]:
    raise EndEpisode(Reason.CONTEXT)
    yield


@pytest.mark.parametrize("workers", ["inline", "threads", "processes"])
def test_a_script_may_end_its_episode_in_every_kind_of_workers(workers: str):
    [trajectory] = play_groups(COUNTER, groups(1), ScriptedPolicy(gives_up), workers)
    assert (trajectory.reason, trajectory.error) == (Reason.CONTEXT, None)


def test_a_script_that_processes_cannot_import_is_refused():
    def script(env: Env, task: Task) -> Any:
        yield from env.solution(task)

    with pytest.raises(UsageError, match=r"the script .* cannot be sent to another process.*use workers='threads'"):
        play_groups(COUNTER, groups(1), ScriptedPolicy(script), "processes")


@dataclass(frozen=True)
class Breaking:
    """A script that adds a line to a file and raises an error after its first move."""

    error: Exception
    log: Path

    def __call__(self, env: Env, task: Task) -> Generator[Any, Any, None]:
        with self.log.open("a") as log:
            log.write("begun\n")
        yield next(iter(solution_player(env, task)))
        raise self.error


BREAKING = [
    (ValueError("no such button"), Reason.SCRIPT_FAILED, "script", 1),
    (StopIteration("StopIteration"), Reason.SCRIPT_FAILED, "script", 1),
    (TaskError("a plan cannot continue"), Reason.SCRIPT_FAILED, "script", 1),
    (ToolError("no element 'e9'"), Reason.SCRIPT_FAILED, "script", 1),
    (BrokenTask("no gold"), Reason.BROKEN_TASK, "task", 1),
    (InfrastructureError("the browser is gone"), Reason.INFRASTRUCTURE, "policy", 3),
]


@pytest.mark.parametrize("workers", ["inline", "processes"])
def test_a_failed_script_is_neither_retried_nor_called_infrastructure(tmp_path: Path, workers: str):
    for number, (error, reason, component, tries) in enumerate(BREAKING):
        log = tmp_path / str(number)
        script = ScriptedPolicy(Breaking(error, log))
        [trajectory] = play_groups(COUNTER, groups(1), script, workers, retries=2)
        assert (trajectory.reason, trajectory.component) == (reason, component), error
        assert (trajectory.failed, trajectory.reward) == (True, 0.0)
        assert str(error) in (trajectory.error or "")
        assert len(log.read_text().split()) == tries
