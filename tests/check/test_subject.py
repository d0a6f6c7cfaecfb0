"""The environment under test: which tasks are tried, how many, and episodes that are played once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from agentgym.checks import subject as subjects
from agentgym.checks.outcomes import Blocked, CheckSkipped
from agentgym.checks.play import Broken
from agentgym.checks.subject import PLAYERS, Subject
from agentgym.env import Env
from agentgym.registry import register
from agentgym.task import GeneratedTasks, Task
from tests.check.sound_envs import SoundEnv, boxes_task


def subject_of(env: type[Env], **kwargs: Any) -> Subject:
    return Subject(f"{env.__module__}:{env.__qualname__}", kwargs)


class Levels(SoundEnv):
    """Has three levels of difficulty in a split without end, one task in another, and remembers its resets."""

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


def test_two_tasks_of_every_level_and_split_are_tried(levels: Subject):
    assert [task.id for task in levels.tasks] == [*ids(range(6)), "boxes/test/0"]
    assert Counter((task.split, task.difficulty) for task in levels.tasks).most_common(1)[0][1] == 2


def test_one_task_of_every_level_is_tried_and_four_at_least_where_episodes_take_long(monkeypatch: pytest.MonkeyPatch):
    whole = [task.id for task in subject_of(Levels).tasks]
    for limits in ((1e9, 1e9), (0.0, 1e9), (1e9, 0.0)):
        monkeypatch.setattr(subjects, "_SLOW_STEP_S", limits[0])
        monkeypatch.setattr(subjects, "_SLOW_EPISODE_S", limits[1])
        subject = subject_of(Levels)
        subject.pace()
        assert subject.is_slow == (0.0 in limits)
        expected = [*ids(range(3)), "boxes/test/0"] if subject.is_slow else whole
        assert [task.id for task in subject.tasks] == expected
    few = subject_of(Levels, tasks=GeneratedTasks("boxes", _of_one_level, {"train": None, "test": 1}))
    few.is_slow = True
    assert [task.id for task in few.tasks] == ["boxes/train/0", "boxes/test/0", "boxes/train/1", "boxes/train/2"]


def _of_one_level(split: str, index: int) -> Task:
    return replace(boxes_task(split, index), difficulty=1)


def test_the_first_tasks_of_every_split_are_scanned_and_of_an_endless_one_some(levels: Subject):
    scanned = levels.scanned
    assert list(scanned) == ["train", "test"]
    assert [task.id for task in scanned["test"]] == ["boxes/test/0"]
    assert 6 <= len(scanned["train"]) <= 200
    assert [task.id for task in scanned["train"]] == ids(range(len(scanned["train"])))


def test_checks_that_need_several_episodes_a_task_take_up_to_six_spread_over_all():
    subject = Subject("tests.check.sound_envs:SoundEnv")
    for count, indices in ((0, range(0)), (1, range(1)), (6, range(6)), (7, range(0, 7, 2)), (13, range(0, 13, 3))):
        subject.tasks = [boxes_task("train", number) for number in range(count)]
        assert list(subject.spread()) == list(indices)
        assert [task.id for task in subject.few_tasks] == ids(indices)


# Episodes.


def test_episodes_are_played_once_however_many_checks_ask(levels: Subject):
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


def test_one_episode_can_be_played_in_an_environment_that_is_given(levels: Subject):
    env = Levels()
    assert levels.play(boxes_task("train", 3), "solution", env).outcome == 1.0
    assert env.task.id == "boxes/train/3"
    assert levels.play(boxes_task("train", 4), "idle").outcome == 0.0


def test_the_seeds_of_episodes_count_from_that_of_the_checks():
    subject, other = (Subject("tests.check.sound_envs:SoundEnv", seed=seed) for seed in (5, 0))
    for player in PLAYERS:
        assert [episode.seed for episode in subject.episodes(player)] == [*range(5, 5 + len(subject.tasks))]
    assert other.episodes("idle")[0].seed == 0
    assert other.episodes("idle")[0].opening != subject.episodes("idle")[0].opening


def test_episodes_that_cannot_be_played_are_left_to_the_check_that_says_so():
    subject = Subject("tests.check.broken_envs:CrashesOnSecondLook")
    for _ in range(2):
        with pytest.raises(Blocked, match="see 'plays'") as blocked:
            subject.episodes("stubborn")
        assert isinstance(blocked.value.__cause__, Broken)
    assert subject.episodes("idle"), "the others can be played"
    with pytest.raises(Blocked, match="see 'makes'"):
        Subject("tests.check.broken_envs:CannotBeMade").episodes("idle")


def test_probed_episodes_are_solutions_and_random_ones_of_some_tasks_and_half_of_them_where_slow(levels: Subject):
    tasks = [*ids(range(0, 6, 2)), "boxes/test/0"]
    assert [episode.task.id for episode in levels.probed] == tasks * 2
    assert [episode.outcome for episode in levels.probed[:4]] == [1.0] * 4
    assert levels.few_probed == levels.probed
    levels.is_slow = True
    assert levels.few_probed == levels.probed[::2]
    assert {episode.player for episode in levels.few_probed} == {"solution", "random"}


# Environments.


def test_a_variant_is_made_with_other_arguments_or_skipped_where_there_are_none():
    subject = subject_of(Levels, max_turns=4)
    with subject.variant(dialect="tags") as env:
        assert (env.dialect.name, env.max_turns) == ("tags", 4)
    with pytest.raises(CheckSkipped, match="colour"), subject.variant(colour="red"):
        pass
    with pytest.raises(Blocked, match="'makes'"), Subject("tests.check.broken_envs:CannotBeMade").variant():
        pass
    with pytest.raises(ValueError, match="by the check itself"), subject.variant(dialect="tags"):
        raise ValueError("by the check itself")


def test_an_environment_is_as_gymnasium_would_make_it():
    written = subject_of(Levels, max_turns=4).spec
    assert (written.id, written.kwargs) == ("checked/Levels-v0", {"max_turns": 4})
    register("subjects/boxes-v0", SoundEnv, max_turns=3)
    registered = Subject("subjects/boxes-v0", {"split": "test"}).spec
    assert (registered.id, registered.kwargs) == ("subjects/boxes-v0", {"max_turns": 3, "split": "test"})
    assert Subject("tests.check.broken_envs:DoesNotPickle").pickled is None
    assert Subject("tests.check.sound_envs:SoundEnv").pickled is not None


def test_the_pace_is_that_of_an_environment_that_has_warmed_up(levels: Subject):
    assert min(levels.pace()) > 0.0
    assert Levels.resets == ["boxes/train/0"] * 3, "two episodes and the solution"


class AtMostNineTurns(Levels):
    """Refuses longer episodes."""

    def __init__(self, max_turns: int = 6, **kwargs: Any):
        if max_turns > 9:
            raise ValueError("nine turns are enough")
        super().__init__(max_turns=max_turns, **kwargs)


def test_episodes_are_made_long_only_where_they_are_slow_to_begin_and_may_be_long(levels: Subject):
    assert levels.long == {}
    for env, long in ((Levels, {"max_turns": 40}), (AtMostNineTurns, {})):
        subject = subject_of(env, max_turns=4)
        subject.is_slow = True
        assert subject.long == long
