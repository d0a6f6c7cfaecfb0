"""`CodeTasks`: the procedural source of programming tasks, with splits that share no problem.

The correct program of a task decides by hash which split it belongs to, so one problem is never asked in two splits,
whatever the kind, the wording, the cases or the seed. `test_unseen` asks families that no other split has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from agentgym.errors import TaskError, UsageError
from agentgym.task import TEST, TRAIN, VALIDATION, Task, check_split, split_of
from agentgym.tasks.code import (
    algorithms,
    clocks,
    dates,
    derived,
    graphs,
    languages,
    lists,
    numeric,
    optimums,
    orders,
    parsing,
    programs,
    programs_hard,
    puzzles,
    queues,
    simulation,
    stories,
    strings,
    tables,
    tiny,
    values,
    values_hard,
)
from agentgym.tasks.code.building import build
from agentgym.tasks.code.families import FAMILIES, Family, Kind

TEST_UNSEEN = "test_unseen"
SHARES = {TRAIN: 0.8, VALIDATION: 0.1, TEST: 0.1}
"""Which part of the problems of the families that are not held out goes to which split."""
FAMILY_MODULES = (
    tiny,
    numeric,
    strings,
    lists,
    tables,
    parsing,
    languages,
    simulation,
    queues,
    graphs,
    orders,
    dates,
    clocks,
    algorithms,
    optimums,
    stories,
    values,
    values_hard,
    puzzles,
    programs,
    programs_hard,
    derived,
)
"""The modules that fill `FAMILIES`."""
_DRAWS = 600
"""Draws of one family before another one of its level takes its place."""


class CodeTasks:
    """Values to work out, functions to write or repair, and programs to predict. Every split is without end.

    Tasks go round over the levels, and within a level over its families.

    Args:
        difficulty: Level or levels to ask, 1 to 5; `None` for all.
        families: Names of the families to ask; `None` for all (of the levels and kinds). Held-out ones serve
            `test_unseen` only.
        kinds: Kinds of task to ask: `value`, `function`, `fix`, `predict`; `None` for all.
        seed: Other seeds ask other problems; splits stay disjoint across seeds.
    """

    def __init__(
        self,
        difficulty: int | Sequence[int] | None = None,
        families: str | Sequence[str] | None = None,
        kinds: str | Sequence[str] | None = None,
        seed: int = 0,
    ):
        chosen = _choose(difficulty, families, kinds)
        seen = _by_level(family for family in chosen if not family.held_out)
        unseen = _by_level(family for family in chosen if family.held_out)
        self._levels = dict.fromkeys(SHARES, seen) if seen else {}
        if unseen:
            self._levels[TEST_UNSEEN] = unseen
        self._seed = seed

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self._levels)

    def size(self, split: str) -> None:
        """Return `None`: no split has an end. Raises `TaskError` for an unknown split."""
        check_split(self, split)

    def get(self, split: str, index: int) -> Task:
        """Return task number `index` of `split`."""
        if index < 0:
            raise TaskError(f"task numbers start at 0, not {index}")
        levels = self._levels[check_split(self, split)]
        families = levels[index % len(levels)]
        first = index // len(levels) % len(families)
        for name in (*families[first:], *families[:first]):
            rng = Random(f"code/{self._seed}/{split}/{name}/{index}")
            for _ in range(_DRAWS):
                task = self._draw(FAMILIES[name], split, index, rng)
                if task is not None:
                    return task
        raise TaskError(f"found no task of {families[first]!r} for split {split!r}; allow more families")

    def find(self, task_id: str) -> Task:
        """Return the task with an id such as `code/train/17`."""
        source, split, index = [*task_id.split("/"), "", ""][:3]
        if source != "code" or split not in self.splits or task_id != f"code/{split}/{index}" or not index.isdecimal():
            raise TaskError(f"no task {task_id!r}; ids look like code/{self.splits[0]}/0")
        return self.get(split, int(index))

    def _draw(self, family: Family, split: str, index: int, rng: Random) -> Task | None:
        draft = family.draw(rng)
        if split != TEST_UNSEEN and split_of(draft.key, SHARES) != split:
            return None
        content = build(family, draft, rng)
        if content is None:
            return None
        return Task(
            id=f"code/{split}/{index}",
            split=split,
            prompt=content.prompt,
            difficulty=family.level,
            data=content.data,
            gold=content.gold,
            tags=(family.kind.value, family.name, family.area.value),
        )


def _choose(
    difficulty: int | Sequence[int] | None, names: str | Sequence[str] | None, kinds: str | Sequence[str] | None
) -> list[Family]:
    chosen = [FAMILIES[name] for name in _known("family", names, tuple(FAMILIES))]
    levels = _known("difficulty", difficulty, tuple(sorted({family.level for family in FAMILIES.values()})))
    wanted = _known("kind", kinds, tuple(kind.value for kind in Kind))
    chosen = [family for family in chosen if family.level in levels and family.kind in wanted]
    if not chosen:
        raise UsageError(f"no family has families={names!r}, difficulty={difficulty!r} and kinds={kinds!r} at once")
    return chosen


def _by_level(families: Iterable[Family]) -> list[list[str]]:
    """Return the names of families by level: a source keeps names, so that it can be pickled."""
    levels: dict[int, list[str]] = {}
    for family in families:
        levels.setdefault(family.level, []).append(family.name)
    return [levels[level] for level in sorted(levels)]


def _known(what: str, wanted: Any, valid: tuple[Any, ...]) -> tuple[Any, ...]:
    if wanted is None:
        return valid
    if isinstance(wanted, str | int):
        wanted = (wanted,)
    unknown = [value for value in wanted if value not in valid]
    if unknown or not wanted:
        asked = repr(unknown[0]) if unknown else "(none given)"
        raise UsageError(f"unknown {what} {asked}; choose from: {', '.join(map(str, valid))}")
    return tuple(dict.fromkeys(wanted))
