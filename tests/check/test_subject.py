"""The environment under test: sampled tasks, and episodes that are played once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from agentgym.check.outcomes import Blocked, CheckSkipped
from agentgym.check.play import Broken
from agentgym.check.subject import PLAYERS, Subject
from agentgym.core.env import Env
from agentgym.core.task import GeneratedTasks, Task
from tests.check.sound_envs import SoundEnv, boxes_task


def subject_of(env: type[Env], **kwargs: Any) -> Subject:
    return Subject(f"{env.__module__}:{env.__qualname__}", kwargs)


class Levels(SoundEnv):
    """Has an endless split with three levels and a split with one task; records its resets."""

    resets: ClassVar[list[str]] = []

    @classmethod
    def default_tasks(cls) -> Any:
        def task(split: str, index: int) -> Task:
            return replace(boxes_task(split, index), difficulty=1 + index % 3)

        return GeneratedTasks("boxes", task, {"train": None, "test": 1})

    def start(self, task: Task) -> str:
        self.resets.append(task.id)
        return super().start(task)


@pytest.fixture
def levels() -> Subject:
    Levels.resets.clear()
    return subject_of(Levels)


def ids(numbers: range) -> list[str]:
    return [f"boxes/train/{number}" for number in numbers]


# Tasks.


def test_two_tasks_of_every_level_and_split_are_played(levels: Subject):
    assert [task.id for task in levels.tasks] == [*ids(range(6)), "boxes/test/0"]
    assert Counter((task.split, task.difficulty) for task in levels.tasks).most_common(1)[0][1] == 2


# Episodes.


def test_episodes_are_played_once_for_all_checks(levels: Subject):
    assert len(levels.tasks) == 7
    Levels.resets.clear()
    first = levels.episodes("idle")
    assert [episode.task.id for episode in first] == Levels.resets
    assert levels.episodes("idle") is first
    assert len(levels.all_episodes()) == 7 * len(PLAYERS) + len(levels.stumbled)
    played = len(Levels.resets)
    levels.all_episodes()
    assert len(Levels.resets) == played
    stubborn = levels.episodes("stubborn")
    for contest, index in zip(levels.contests, levels.spread(), strict=True):
        assert contest.adversaries["one call, repeated"] is stubborn[index]
        assert contest.adversaries["idle"] is first[index]


def test_broken_episodes_block_checks_and_name_the_one_that_reports_them():
    subject = Subject("tests.check.broken_envs:CrashesOnSecondLook")
    for _ in range(2):
        with pytest.raises(Blocked, match="see 'plays'") as blocked:
            subject.episodes("stubborn")
        assert isinstance(blocked.value.__cause__, Broken)
    assert subject.episodes("idle"), "other players still work"
    with pytest.raises(Blocked, match="see 'makes'"):
        Subject("tests.check.broken_envs:CannotBeMade").episodes("idle")


# Environments.


def test_a_variant_has_other_arguments_or_skips_the_check():
    subject = subject_of(Levels, max_turns=4)
    with subject.variant(dialect="tags") as env:
        assert (env.dialect.name, env.max_turns) == ("tags", 4)
    with pytest.raises(CheckSkipped, match="colour"), subject.variant(colour="red"):
        pass
    with pytest.raises(Blocked, match="'makes'"), Subject("tests.check.broken_envs:CannotBeMade").variant():
        pass
    with pytest.raises(ValueError, match="by the check itself"), subject.variant(dialect="tags"):
        raise ValueError("by the check itself")
