"""`CodeTasks`: the procedural source of programming tasks, with splits that share no problem.

The hash of a task's correct program decides its split, so no two splits ask the same problem, whatever the kind, the
wording, the cases or the seed. `test_unseen` asks families that no other split has.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from agentgym.core.task import Task
from agentgym.procedural import Families, ProceduralTasks, must_belong
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
    puzzles,
    queues,
    simulation,
    stories,
    strings,
    tables,
    tiny,
    values,
)
from agentgym.tasks.code.building import build
from agentgym.tasks.code.families import FAMILIES, CodeFamily

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
    puzzles,
    programs,
    derived,
)
"""The modules that fill `FAMILIES`."""


class CodeTasks(ProceduralTasks[CodeFamily]):
    """Values to compute, functions to write or repair, and programs whose output is predicted. No split ends.

    Tasks take turns over the levels, and within a level over its families.

    Args:
        difficulty: The level or levels, 1 to 5; `None` for all.
        families: Names of the families; `None` for all (of the levels and kinds). Held-out families serve
            `test_unseen` only.
        kinds: The kinds of task: `value`, `function`, `fix`, `predict`; `None` for all.
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
        super().__init__(difficulty, families, seed, where={"kind": kinds})

    @classmethod
    def known(cls) -> Families[CodeFamily]:
        """Return all families by name."""
        return FAMILIES

    def draw(self, family: CodeFamily, split: str, index: int, rng: Random) -> Task:
        """Draw a task. Raises `NoFit` if it cannot be built or belongs to another split."""
        draft = family.draw(rng)
        must_belong(split, draft.key)
        content = build(family, draft, rng)
        return family.task(self.id_of(split, index), split, content.prompt, data=content.data, gold=content.gold)

    def _random(self, family: str, split: str, index: int, rng: Random) -> Random:
        """Return a separate generator for the family, so that the draws of other families do not change its tasks."""
        return Random(f"{self.prefix}/{self._seed}/{split}/{family}/{index}")
