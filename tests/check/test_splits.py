"""Problems in two splits are detected despite other numbers, letters or orders; similar problems are not."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from agentgym.check import run_checks
from agentgym.core.task import GeneratedTasks, Task
from tests.check.sound_envs import SoundTalkEnv
from tests.refusals import differing

SIZES = {"train": 60, "test": 40}


def ten(*seed: object) -> list[int]:
    """Return ten numbers."""
    return random.Random(str(seed)).choices(range(1000), k=10)


def task(split: str, index: int, prompt: str, data: dict[str, Any], gold: dict[str, Any]) -> Task:
    return Task(f"sums/{split}/{index}", split, prompt, data=data, gold=gold)


def same(split: str, index: int) -> Task:
    """Both splits have the same problems."""
    return task(split, index, "Add the numbers.", {"numbers": ten(index)}, {"sum": sum(ten(index))})


def renumbered(split: str, index: int) -> Task:
    """The same problems with other serial numbers in prompt and data."""
    data = {"uid": f"{split}-{index}", "numbers": ten(index)}
    return task(split, index, f"Problem {index + (split == 'test') * 500}: add.", data, {"sum": sum(ten(index))})


def shuffled(split: str, index: int) -> Task:
    """The same problems in another order."""
    numbers = ten(index)
    random.Random(split).shuffle(numbers)
    return task(split, index, "Add the numbers.", {"numbers": numbers}, {"sum": sum(numbers)})


def reworded(split: str, index: int) -> Task:
    """The same problems with other prompts."""
    prompt = "What is the sum?" if split == "test" else "Add the numbers."
    return task(split, index, f"{prompt} {ten(index)}", {"numbers": ten(index)}, {"sum": sum(ten(index))})


def apart(split: str, index: int) -> Task:
    """Different problems with the same serial numbers."""
    numbers = ten(split, index)
    return task(split, index, f"Problem {index}: add.", {"numbers": numbers, "case": index}, {"sum": sum(numbers)})


def hidden(split: str, index: int) -> Task:
    """Different problems with equal prompts and different gold."""
    return task(split, index, f"Game {index}: find it.", {"game": index}, {"number": ten(split, index)[0]})


class Sums(SoundTalkEnv):
    """Has the tasks of the function `generate`."""

    def __init__(self, generate: str, **kwargs: Any):
        super().__init__(tasks=GeneratedTasks("sums", globals()[generate], SIZES), **kwargs)


def finding(generate: Callable[[str, int], Task]) -> str:
    arguments = {"generate": generate.__name__}
    row = run_checks(f"{__name__}:Sums", arguments, only=["splits-disjoint"]).row("splits-disjoint")
    return "" if row.status == "pass" else row.message


def test_equal_problems_in_two_splits_are_detected_and_differences_named():
    words = "'sums/train/0' and 'sums/test/0' are the same problem"
    rows = [(generate, words) for generate in (same, renumbered, shuffled, reworded)]
    rows.append((reworded, "but for the prompt, and so are 39 others"))
    rows.append((renumbered, "but for the numbers in the prompt, data.uid"))
    assert [(generate.__name__, finding(generate)) for generate, part in rows if part not in finding(generate)] == []


def test_similar_problems_count_as_different():
    assert differing(finding, [(generate, "") for generate in (apart, hidden)]) == []
