"""Endless task sources: families draw problems and word them, and `ProceduralTasks` cycles through the families.

A family is a function that draws from a scene (a random number generator, or your own `Scene` with content to ask
about). It returns a draft: any object with `words`, which fill in the phrasings. If nothing fits, it raises `NoFit`,
and the source draws again. A complete source:

    @dataclass(frozen=True)
    class Sum:
        words: Mapping[str, int]
        total: int


    FAMILIES = Families(Family[Random, Sum])


    @FAMILIES.register(1, "What is {a} + {b}?", "Add {b} to {a}.")
    def small_sum(rng: Random) -> Sum:
        a, b = rng.randint(1, 9), rng.randint(1, 9)
        return Sum({"a": a, "b": b}, a + b)


    class Sums(ProceduralTasks[Family[Random, Sum]]):
        prefix = "sum"

        @classmethod
        def known(cls) -> Families[Family[Random, Sum]]:
            return FAMILIES

        def draw(self, family: Family[Random, Sum], split: str, index: int, rng: Random) -> Task:
            draft = family.draw(rng)
            must_belong(split, f"{family.name} {draft.words}")
            prompt = family.word(draft, rng)
            return family.task(self.id_of(split, index), split, prompt, gold={"total": draft.total})

`Sums(difficulty=[1, 2], families="small_sum", seed=3)` then selects levels and families, with clear errors.
"""

from __future__ import annotations

from agentgym.core.procedural import (
    SEED_DIGITS,
    Draft,
    Families,
    Family,
    NoFit,
    ProceduralTasks,
    Scene,
    Wording,
    by_level,
    choose_families,
    divide,
    must_belong,
)

__all__ = [
    "SEED_DIGITS",
    "Draft",
    "Families",
    "Family",
    "NoFit",
    "ProceduralTasks",
    "Scene",
    "Wording",
    "by_level",
    "choose_families",
    "divide",
    "must_belong",
]
