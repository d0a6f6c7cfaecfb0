"""`WebTasks`: the procedural source of tasks on the bundled sites, with splits that share no site.

Each split has seeds of its own for the sites, and sites of different splits share no person, product or place name
that is drawn by seed; so no task of one split says anything about a task of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from random import Random
from typing import Any

from agentgym.choices import some_of
from agentgym.errors import UsageError
from agentgym.procedural import ProceduralTasks, by_level
from agentgym.task import TEST, TRAIN, VALIDATION, Task
from agentgym.tasks.web.family import FAMILIES, Draft, Family, NoFit, Scene, gold_of
from agentgym.tools.sites.episode import new_database
from agentgym.tools.sites.site import SITE_MODULES, find_site

SITES = tuple(SITE_MODULES)
_LAST_DIGITS = {TRAIN: (0, 1, 2, 3, 4, 5, 6, 7), VALIDATION: (8,), TEST: (9,)}
"""Last digits of the sites' seeds of each split (`agentgym.tools.sites.words.seed_split`)."""


class WebTasks(ProceduralTasks[Family]):
    """Tasks on the bundled sites, graded by the server's state. Every split is without end.

    Tasks go round over the difficulties, and within one over its families.

    Args:
        sites: Names of the sites; `None` for all.
        families: Names of the families, such as `shop.buy`; `None` for all (of the sites and difficulties).
        difficulty: Difficulty or difficulties, 1 to 5; `None` for all.
        seed: Other seeds give other tasks on other sites; splits stay disjoint across seeds.
    """

    prefix = "web"
    draws = 60

    def __init__(
        self,
        sites: Sequence[str] | None = None,
        families: Sequence[str] | None = None,
        difficulty: int | Sequence[int] | None = None,
        seed: int = 0,
    ):
        super().__init__(seed)
        chosen_sites = some_of("site", sites, SITES)
        known = load_families()
        chosen = [known[name] for name in some_of("family", families, known)]
        levels = some_of("difficulty", difficulty, (1, 2, 3, 4, 5))
        fitting = [choice for choice in chosen if choice.site in chosen_sites and choice.level in levels]
        if not fitting:
            raise UsageError(
                f"no family fits sites={sites!r}, families={families!r}, difficulty={difficulty!r}; "
                f"families are: {', '.join(known)}"
            )
        self._levels = by_level(fitting)

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(_LAST_DIGITS)

    @property
    def families(self) -> tuple[Family, ...]:
        """The families that tasks are drawn from, easier ones first."""
        return tuple(self.family(name) for group in self._levels for name in group)

    def levels(self, split: str) -> list[list[str]]:
        """Return the names of the families, by level."""
        return self._levels

    def family(self, name: str) -> Family:
        """Return a family."""
        return load_families()[name]

    def draw(self, family: Family, split: str, index: int, rng: Random) -> Task | None:
        """Draw a task on a site of its own; `None` if that site has nothing to ask."""
        site_seed = rng.randrange(100_000) * 10 + rng.choice(_LAST_DIGITS[split])
        try:
            return draw_task(family, site_seed, rng, f"web/{split}/{index}", split)
        except NoFit:
            return None


def draw_task(choice: Family, site_seed: int, rng: Random, task_id: str, split: str) -> Task:
    """Draw one task of a family on one site. Raises `NoFit` if that site has nothing to ask."""
    db = new_database(find_site(choice.site), site_seed, choice.options)
    try:
        draft: Draft = choice.draw(Scene(db, rng))
    finally:
        db.close()
    prompt = rng.choice(choice.phrasings).format_map(draft.words)
    # What the prompt names is no secret; were it the answer, it would have to be one.
    named = sorted({str(word) for word in draft.words.values()} - {str(draft.answer)})
    data: dict[str, Any] = {"site": choice.site, "seed": site_seed, "start": draft.start, "named": named}
    if choice.options:
        data["options"] = dict(choice.options)
    return Task(
        id=task_id,
        split=split,
        prompt=prompt,
        difficulty=choice.level,
        data=data,
        gold=gold_of(draft, prompt),
        tags=(choice.name, f"L{choice.level}", choice.site),
    )


@cache
def load_families() -> dict[str, Family]:
    """Import the modules of families (each is called after its site, as `shop_cart`); return the families by name."""
    for module in iter_modules([str(Path(__file__).parent)]):
        if module.name.partition("_")[0] in SITES:
            import_module(f"agentgym.tasks.web.{module.name}")
    return dict(sorted(FAMILIES.items()))
