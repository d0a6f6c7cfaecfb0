"""Rollouts that run ahead: no group is lost, none is trained on twice, and slow ones continue with new weights."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl", reason="needs the [train] extra")

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.policy import Codec, Generation
from agentgym.core.trajectory import Trajectory
from agentgym.rollout import Limits
from agentgym.trainers.ahead import AheadRollouts, is_carried
from agentgym.trainers.batches import TaskRow
from tests.rollout_cases import END, Factory, Letters
from tests.rows import each_row
from tests.trainers.letters_env import LettersEnv
from tests.waiting import HANG_S

pytestmark = [pytest.mark.real, pytest.mark.train]

GROUPS, SIZE, STEPS = 2, 2, 5


class Stuck(LettersEnv):
    """The first task hangs after its first turn until `may_end`."""

    may_end = threading.Event()

    def respond(self, text: str) -> str:
        if self.task.id.endswith("/0") and not self.may_end.wait(HANG_S):
            raise TimeoutError
        return super().respond(text)


class Broken(LettersEnv):
    def respond(self, text: str) -> str:
        raise OSError("the disk is full")


class Speaker:
    """Says the same letter in every turn."""

    name, context = "speaker", 10_000

    def __init__(self) -> None:
        self.codec: Codec = Letters()
        self.version, self.sessions = 0, list[str]()

    def updated(self, version: int) -> None:
        self.version = version

    def release(self, session: str) -> None: ...

    async def generate(self, ids: Sequence[int], max_new_tokens: int, session: str, **_: Any) -> Generation:
        self.sessions.append(session)
        return Generation([99, END], [-1.0, -1.0], "stop", self.version)


def rollouts(policy: Speaker, env: Any = Stuck, **settings: Any) -> AheadRollouts:
    rows = [TaskRow(index, seed=index) for index in range(STEPS * GROUPS)]
    sizes: dict[str, Any] = {"groups": GROUPS, "group_size": SIZE, "ahead": 1} | settings
    source = LettersEnv.default_tasks()
    return AheadRollouts(policy, Factory(build=env), source, Limits(retries=0), rows, **sizes)


def taken(played: AheadRollouts, step: int) -> list[Trajectory]:
    return played([TaskRow(0, 0)] * GROUPS * SIZE, step, training=True).trajectories


def tasks(trajectories: Sequence[Trajectory]) -> list[int]:
    return [int(trajectory.task_id.rpartition("/")[2]) for trajectory in trajectories]


EACH_ONCE = sorted([*range(STEPS * GROUPS)] * SIZE)


def test_no_step_waits_for_a_slow_group_which_continues_with_the_new_weights():
    Stuck.may_end.clear()
    played = rollouts(Speaker())
    steps = [taken(played, step) for step in (0, 1)]
    assert [0 in tasks(trajectories) for trajectories in steps] == [False, False]
    Stuck.may_end.set()
    steps += [taken(played, step) for step in range(2, STEPS)]
    played.close()
    everything = [trajectory for trajectories in steps for trajectory in trajectories]
    assert sorted(tasks(everything)) == EACH_ONCE
    assert sorted(trajectory.attempt for trajectory in everything) == [*range(STEPS * GROUPS * SIZE)]
    for slow in [trajectory for trajectory in everything if trajectory.task_id.endswith("/0")]:
        assert slow.training_step == 0
        assert slow.tokens is not None
        first, second = (slow.tokens.versions[turn.span[0]] for turn in slow.model_turns if turn.span)
        assert first == 0 < 2 <= second


def test_a_resumed_run_repeats_unfinished_groups_and_loses_none(tmp_path: Path):
    Stuck.may_end.clear()
    played, after = rollouts(Speaker()), Speaker()
    learned = taken(played, 0) + taken(played, 1)
    played.save(tmp_path)
    Stuck.may_end.set()
    played.close()
    resumed = rollouts(after)
    resumed.resume(tmp_path)
    for step in range(2, STEPS):
        learned += taken(resumed, step)
    resumed.close()
    assert sorted(tasks(learned)) == EACH_ONCE
    assert not {trajectory.id for trajectory in learned[: 2 * GROUPS * SIZE]} & {*after.sessions}
    assert {"letters/train/0#0", "letters/train/0#1"} <= {*after.sessions}


def test_a_resumed_run_learns_from_complete_groups_as_they_were_sampled(tmp_path: Path):
    Stuck.may_end.set()
    played, policy = rollouts(Speaker()), Speaker()
    complete = taken(played, 0)[:SIZE]
    [number] = {*tasks(complete)}
    played.save(tmp_path)
    played.close()
    path = tmp_path / "ahead-0.json"
    state = {"next": 4, "running": [n for n in range(4) if n != number]}
    state["complete"] = {number: [trajectory.to_dict() for trajectory in complete]}  # type: ignore[assignment]
    path.write_text(json.dumps(json.loads(path.read_text()) | state))
    resumed = rollouts(policy)
    resumed.resume(tmp_path)
    learned = [trajectory for step in range(STEPS) for trajectory in taken(resumed, step)]
    resumed.close()
    assert [trajectory for trajectory in learned if tasks([trajectory]) == [number]] == complete
    assert not {trajectory.id for trajectory in complete} & {*policy.sessions}
    assert sorted(tasks(learned)) == EACH_ONCE


def test_a_run_that_did_not_run_ahead_before_starts_with_the_groups_of_its_step(tmp_path: Path):
    Stuck.may_end.set()
    assert not is_carried(tmp_path)
    played = rollouts(Speaker())
    played.resume(tmp_path)
    learned = [trajectory for step in (3, 4) for trajectory in taken(played, step)]
    played.close()
    assert sorted({*tasks(learned)}) == [6, 7, 8, 9]


@each_row("change", [{"groups": 1}, {"group_size": 3}, {"place": (0, 2)}])
def test_groups_of_another_shape_are_refused(tmp_path: Path, change: dict[str, Any]):
    Stuck.may_end.set()
    played = rollouts(Speaker())
    taken(played, 0)
    played.save(tmp_path)
    played.close()
    other = rollouts(Speaker(), **change)
    with pytest.raises(UsageError, match=r"holds groups for the next steps, with \w+ \d: resume with the same"):
        other.resume(tmp_path)
    other.close()


def test_two_processes_play_different_groups():
    Stuck.may_end.set()
    learned: list[Trajectory] = []
    for rank in (0, 1):
        played = rollouts(Speaker(), place=(rank, 2))
        for step in range(STEPS):
            learned += played([TaskRow(0, 0)] * SIZE, step, training=True).trajectories
        played.close()
    assert sorted(tasks(learned)) == EACH_ONCE
    assert sorted(trajectory.attempt for trajectory in learned) == [*range(STEPS * GROUPS * SIZE)]


def test_a_step_of_failures_only_stops_the_run():
    played = rollouts(Speaker(), Broken)
    with pytest.raises(InfrastructureError, match=r"all 4 episodes of a step failed in step; .*the disk is full"):
        taken(played, 0)
    played.close()
