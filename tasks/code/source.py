"""`CodeTasks`: the procedural source of programming tasks, with splits that share no problem.

The correct program of a task decides by hash which split it belongs to, so one problem is never asked in two splits,
whatever the kind, the wording, the cases or the seed. `test_unseen` asks families that no other split has.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from agentgym.choices import some_of
from agentgym.errors import UsageError
from agentgym.procedural import ProceduralTasks, by_level
from agentgym.task import TEST, TRAIN, VALIDATION, Task, split_of
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


class CodeTasks(ProceduralTasks[Family]):
    """Values to work out, functions to write or repair, and programs to predict. Every split is without end.

    Tasks go round over the levels, and within a level over its families.

    Args:
        difficulty: Level or levels to ask, 1 to 5; `None` for all.
        families: Names of the families to ask; `None` for all (of the levels and kinds). Held-out ones serve
            `test_unseen` only.
        kinds: Kinds of task to ask: `value`, `function`, `fix`, `predict`; `None` for all.
        seed: Other seeds ask other problems; splits stay disjoint across seeds.
    """

    prefix = "code"
    draws = 600

    def __init__(
        self,
        difficulty: int | Sequence[int] | None = None,
        families: str | Sequence[str] | None = None,
        kinds: str | Sequence[str] | None = None,
        seed: int = 0,
    ):
        super().__init__(seed)
        chosen = _choose(difficulty, families, kinds)
        seen = by_level(family for family in chosen if not family.held_out)
        unseen = by_level(family for family in chosen if family.held_out)
        self._levels = dict.fromkeys(SHARES, seen) if seen else {}
        if unseen:
            self._levels[TEST_UNSEEN] = unseen

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self._levels)

    def levels(self, split: str) -> list[list[str]]:
        """Return the names of the families of a split, by level."""
        return self._levels[split]

    def family(self, name: str) -> Family:
        """Return a family."""
        return FAMILIES[name]

    def draw(self, family: Family, split: str, index: int, rng: Random) -> Task | None:
        """Draw a task; `None` if it cannot be built or belongs to another split."""
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

    def _random(self, family: str, split: str, index: int, rng: Random) -> Random:
        return Random(f"code/{self._seed}/{split}/{family}/{index}")


def _choose(
    difficulty: int | Sequence[int] | None, names: str | Sequence[str] | None, kinds: str | Sequence[str] | None
) -> list[Family]:
    chosen = [FAMILIES[name] for name in some_of("family", names, FAMILIES)]
    levels = some_of("difficulty", difficulty, sorted({family.level for family in FAMILIES.values()}))
    wanted = some_of("kind", kinds, [kind.value for kind in Kind])
    chosen = [family for family in chosen if family.level in levels and family.kind in wanted]
    if not chosen:
        raise UsageError(f"no family has families={names!r}, difficulty={difficulty!r} and kinds={kinds!r} at once")
    return chosen
