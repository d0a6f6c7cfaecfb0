"""Splits that share problems are found behind new numbers, letters and orders; those that only look alike are not."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym.checks import run_checks
from agentgym.task import GeneratedTasks, Task
from tests.sound_envs import SoundTalkEnv

SIZES = {"train": 60, "test": 40}


@pytest.fixture(autouse=True)
def _environments_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))


def drawn(*seed: object) -> list[int]:
    """Ten numbers."""
    return random.Random(str(seed)).choices(range(1000), k=10)


def task(split: str, index: int, prompt: str, data: dict[str, Any], gold: dict[str, Any]) -> Task:
    return Task(f"sums/{split}/{index}", split, prompt, data=data, gold=gold)


def same(split: str, index: int) -> Task:
    return task(split, index, "Add the numbers.", {"numbers": drawn(index)}, {"sum": sum(drawn(index))})


def louder(split: str, index: int) -> Task:
    prompt = f"Add  {drawn(index)}."
    return task(split, index, prompt.upper() if split == "test" else prompt, {}, {"sum": sum(drawn(index))})


def renumbered(split: str, index: int) -> Task:
    data = {"uid": f"{split}-{index}", "numbers": drawn(index)}
    return task(split, index, f"Problem {index + (split == 'test') * 500}: add.", data, {"sum": sum(drawn(index))})


def shuffled(split: str, index: int) -> Task:
    numbers = drawn(index)
    random.Random(split).shuffle(numbers)
    return task(split, index, "Add the numbers.", {"numbers": numbers}, {"sum": sum(numbers)})


def reworded(split: str, index: int) -> Task:
    prompt = "What is the sum?" if split == "test" else "Add the numbers."
    return task(split, index, f"{prompt} {drawn(index)}", {"numbers": drawn(index)}, {"sum": sum(drawn(index))})


def apart(split: str, index: int) -> Task:
    numbers = drawn(split, index)
    return task(split, index, f"Problem {index}: add.", {"numbers": numbers, "case": index}, {"sum": sum(numbers)})


def hidden(split: str, index: int) -> Task:
    """A game is known by its number alone; what is to be found is in the gold."""
    return task(split, index, f"Game {index}: find it.", {"game": index}, {"number": drawn(split, index)[0]})


def few(split: str, index: int) -> Task:
    """So few problems that they repeat; the smaller number says to which split they belong."""
    small, large = (index % 5) * 2 + (split == "test"), 20 + index % 3
    data = {"small": small, "large": large}
    return task(split, index, "Add the numbers.", data, {"sum": small + large})


class Same(SoundTalkEnv):
    """Test tasks are training tasks."""

    generate: Callable[[str, int], Task] = staticmethod(same)

    @classmethod
    def default_tasks(cls) -> Any:
        return GeneratedTasks("sums", cls.generate, SIZES)


class Louder(Same):
    """The same in capitals."""

    generate = staticmethod(louder)


class Renumbered(Same):
    """The same under other numbers, in the prompt and in the data."""

    generate = staticmethod(renumbered)


class Shuffled(Same):
    """The same in another order."""

    generate = staticmethod(shuffled)


class Reworded(Same):
    """The same in other words."""

    generate = staticmethod(reworded)


class Apart(Same):
    """Other numbers, counted alike."""

    generate = staticmethod(apart)


class Hidden(Same):
    """Told apart by the gold alone."""

    generate = staticmethod(hidden)


class Few(Same):
    """Repeats itself within its splits."""

    generate = staticmethod(few)


def found(env: type[Same]) -> str:
    row = run_checks(f"tests.test_checks_splits:{env.__name__}", only=["splits-disjoint"]).row("splits-disjoint")
    return "" if row.status == "pass" else row.message


@pytest.mark.parametrize("env", [Same, Louder, Renumbered, Shuffled, Reworded], ids=lambda env: env.__name__)
def test_the_same_problems_are_found_in_both_splits(env: type[Same]):
    assert "'sums/train/0' and 'sums/test/0' are the same problem" in found(env)


@pytest.mark.parametrize("env", [Apart, Hidden, Few], ids=lambda env: env.__name__)
def test_problems_that_only_look_alike_are_not_the_same(env: type[Same]):
    assert found(env) == ""


def test_what_differs_is_named():
    assert "but for the prompt, and so are 39 others" in found(Reworded)
    assert "but for the numbers in the prompt, data.uid" in found(Renumbered)
