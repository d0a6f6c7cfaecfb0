"""What the checks try an environment on: which tasks, how many, and episodes that are played once."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from agentgym.checks.outcomes import Blocked, CheckSkipped
from agentgym.checks.play import Broken
from agentgym.checks.subject import PLAYERS, Subject
from agentgym.env import Env
from agentgym.registry import register
from agentgym.task import GeneratedTasks, Task
from tests.sound_envs import SoundEnv, boxes_task


@pytest.fixture(autouse=True)
def _environments_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))


def subject_of(env: type[Env], **kwargs: Any) -> Subject:
    return Subject(f"{env.__module__}:{env.__qualname__}", kwargs)


class Levels(SoundEnv):
    """Has three levels of difficulty in a split without end, one task in another, and remembers its resets."""

    resets: ClassVar[list[str]] = []

    @classmethod
    def default_tasks(cls) -> Any:
        def task(split: str, index: int) -> Task:
            plain = boxes_task(split, index)
            return Task(plain.id, split, plain.prompt, 1 + index % 3, plain.data, plain.gold)

        return GeneratedTasks("boxes", task, {"train": None, "test": 1})

    def start(self, task: Task) -> str:
        self.resets.append(task.id)
        return super().start(task)


@pytest.fixture
def levels() -> Subject:
    Levels.resets.clear()
    return subject_of(Levels)


def test_two_tasks_of_every_level_and_split_are_tried(levels: Subject):
    assert [task.id for task in levels.tasks] == [*(f"boxes/train/{n}" for n in range(6)), "boxes/test/0"]
    assert Counter((task.split, task.difficulty) for task in levels.tasks).most_common(1)[0][1] == 2


class LongEpisodes(Levels):
    """Takes long to begin an episode."""

    def start(self, task: Task) -> str:
        time.sleep(0.5)
        return super().start(task)


def test_one_task_of_every_level_is_tried_and_four_at_least_where_episodes_take_long():
    subject = subject_of(LongEpisodes)
    assert not subject.is_slow
    subject.pace()
    assert subject.is_slow
    assert [task.id for task in subject.tasks] == [*(f"boxes/train/{n}" for n in range(3)), "boxes/test/0"]
    few = subject_of(LongEpisodes, tasks=GeneratedTasks("boxes", _of_one_level, {"train": None, "test": 1}))
    few.pace()
    assert [task.id for task in few.tasks] == ["boxes/train/0", "boxes/test/0", "boxes/train/1", "boxes/train/2"]


def _of_one_level(split: str, index: int) -> Task:
    return replace(boxes_task(split, index), difficulty=1)


def test_the_first_tasks_of_every_split_are_scanned_and_of_an_endless_one_some(levels: Subject):
    scanned = levels.scanned
    assert list(scanned) == ["train", "test"]
    assert [task.id for task in scanned["test"]] == ["boxes/test/0"]
    assert 6 <= len(scanned["train"]) <= 200
    assert [task.id for task in scanned["train"]] == [f"boxes/train/{n}" for n in range(len(scanned["train"]))]


@pytest.mark.parametrize(
    ("count", "indices"),
    [
        (1, [0]),
        (6, [0, 1, 2, 3, 4, 5]),
        (7, [0, 2, 4, 6]),
        (12, [0, 2, 4, 6, 8, 10]),
        (13, [0, 3, 6, 9, 12]),
        (0, []),
    ],
)
def test_checks_that_need_several_episodes_a_task_take_up_to_six_spread_over_all(count: int, indices: list[int]):
    subject = Subject("tests.sound_envs:SoundEnv")
    subject.tasks = [boxes_task("train", number) for number in range(count)]
    assert list(subject.spread()) == indices
    assert [task.id for task in subject.few_tasks] == [f"boxes/train/{number}" for number in indices]


def test_episodes_are_played_once_however_many_checks_ask(levels: Subject):
    assert len(levels.tasks) == 7
    Levels.resets.clear()
    first = levels.episodes("idle")
    assert len(Levels.resets) == len(first) == 7
    assert levels.episodes("idle") is first
    assert [episode.task.id for episode in first] == Levels.resets
    assert len(levels.all_episodes()) == 7 * len(PLAYERS) + len(levels.stumbled)
    played = len(Levels.resets)
    levels.all_episodes()
    assert len(Levels.resets) == played


def test_one_episode_can_be_played_in_an_environment_that_is_given(levels: Subject):
    env = Levels()
    played = levels.play(boxes_task("train", 3), "solution", env)
    assert played.outcome == 1.0
    assert env.task.id == "boxes/train/3"
    assert levels.play(boxes_task("train", 4), "idle").outcome == 0.0


def test_the_seeds_of_episodes_count_from_that_of_the_checks():
    subject = Subject("tests.sound_envs:SoundEnv", seed=5)
    for player in PLAYERS:
        assert [episode.seed for episode in subject.episodes(player)] == [*range(5, 5 + len(subject.tasks))]
    other = Subject("tests.sound_envs:SoundEnv")
    assert other.episodes("idle")[0].seed == 0
    assert other.episodes("idle")[0].opening != subject.episodes("idle")[0].opening


def test_what_cannot_be_played_is_told_by_the_check_that_is_there_for_it():
    subject = Subject("tests.broken_envs:CrashesOnSecondLook")
    for _ in range(2):
        with pytest.raises(Blocked, match="its stubborn episodes cannot be played; see 'plays'") as blocked:
            subject.episodes("stubborn")
        assert isinstance(blocked.value.__cause__, Broken)
    assert subject.episodes("idle"), "the others can be played"
    with pytest.raises(Blocked, match="it cannot be made; see 'makes'"):
        Subject("tests.broken_envs:CannotBeMade").episodes("idle")


def test_a_variant_is_made_with_other_arguments_or_skipped_where_there_are_none():
    subject = subject_of(Levels, max_turns=4)
    with subject.variant(dialect="tags") as env:
        assert (env.dialect.name, env.max_turns) == ("tags", 4)
    with (
        pytest.raises(CheckSkipped, match=r"cannot be made with \{'colour': 'red'\}"),
        subject.variant(colour="red"),
    ):
        pass
    with pytest.raises(Blocked, match="it cannot be made"), Subject("tests.broken_envs:CannotBeMade").variant():
        pass
    with pytest.raises(ValueError, match="by the check itself"), subject.variant(dialect="tags"):
        raise ValueError("by the check itself")


def test_an_environment_is_as_gymnasium_would_make_it():
    written = subject_of(Levels, max_turns=4).spec
    assert (written.id, written.kwargs) == ("checked/Levels-v0", {"max_turns": 4})
    register("subjects/boxes-v0", SoundEnv, max_turns=3)
    registered = Subject("subjects/boxes-v0", {"split": "test"}).spec
    assert (registered.id, registered.kwargs) == ("subjects/boxes-v0", {"max_turns": 3, "split": "test"})


def test_what_cannot_be_pickled_is_known_and_what_can_be_is_kept():
    assert Subject("tests.broken_envs:DoesNotPickle").pickled is None
    assert Subject("tests.sound_envs:SoundEnv").pickled is not None


def test_the_pace_is_that_of_an_environment_that_has_warmed_up(levels: Subject):
    began = time.perf_counter()
    reset_s, step_s = levels.pace()
    took = time.perf_counter() - began
    assert 0.0 < reset_s < took
    assert 0.0 < step_s < took
    # Two episodes and the solution.
    assert Levels.resets == ["boxes/train/0"] * 3


class AtMostNineTurns(LongEpisodes):
    """Refuses longer episodes."""

    def __init__(self, max_turns: int = 6, **kwargs: Any):
        if max_turns > 9:
            raise ValueError("nine turns are enough")
        super().__init__(max_turns=max_turns, **kwargs)


def test_episodes_are_made_long_only_where_they_are_slow_to_begin_and_may_be_long(levels: Subject):
    assert levels.long == {}
    slow = {env: subject_of(env, max_turns=4) for env in (LongEpisodes, AtMostNineTurns)}
    for subject in slow.values():
        subject.is_slow = True
    assert slow[LongEpisodes].long == {"max_turns": 40}
    assert slow[AtMostNineTurns].long == {}


def test_half_of_the_probed_episodes_are_compared_where_they_take_long(levels: Subject):
    assert levels.few_probed == levels.probed
    levels.is_slow = True
    assert levels.few_probed == levels.probed[::2]
    assert {episode.player for episode in levels.few_probed} == {"solution", "random"}


def test_probed_episodes_are_solutions_and_random_ones_of_some_tasks(levels: Subject):
    ids = [f"boxes/train/{number}" for number in (0, 2, 4)] + ["boxes/test/0"]
    assert [episode.task.id for episode in levels.probed] == ids * 2
    assert [episode.outcome for episode in levels.probed[:4]] == [1.0] * 4
