"""`WebTasks`: the procedural source of tasks on the bundled sites, with splits that share no site.

Sites of different splits have different seeds, and share no name of a person, product or place that depends on the
seed, so no task of one split reveals anything about a task of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from random import Random
from typing import Any

from agentgym.core.task import Task
from agentgym.procedural import SEED_DIGITS, ProceduralTasks
from agentgym.tasks.web.family import FAMILIES, WebFamily, WebScene, gold_of
from agentgym.tasks.web.sites.episode import new_database
from agentgym.tasks.web.sites.site import SITE_MODULES, find_site

SITES = tuple(SITE_MODULES)


class WebTasks(ProceduralTasks[WebFamily]):
    """Tasks on the bundled sites, graded by the state of the server. No split ends.

    Tasks take turns over the levels, and within a level over its families.

    Args:
        sites: Names of the sites; `None` for all.
        families: Names of the families, such as `shop.order`; `None` for all (of the sites and levels).
        difficulty: The level or levels, 1 to 5; `None` for all.
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
        super().__init__(difficulty, families, seed, where={"site": sites})

    @classmethod
    def known(cls) -> dict[str, WebFamily]:
        """Return all families by name."""
        return load_families()

    def draw(self, family: WebFamily, split: str, index: int, rng: Random) -> Task:
        """Draw a task on a site of its own. Raises `NoFit` if that site offers no such task."""
        site_seed = rng.randrange(100_000) * 10 + rng.choice(SEED_DIGITS[split])
        return draw_task(family, site_seed, rng, self.id_of(split, index), split)


def draw_task(choice: WebFamily, site_seed: int, rng: Random, task_id: str, split: str) -> Task:
    """Draw one task of a family on one site. Raises `NoFit` if that site offers no such task."""
    db = new_database(find_site(choice.site), site_seed, choice.options)
    try:
        draft = choice.draw(WebScene(db, rng))
    finally:
        db.close()
    prompt = choice.word(draft, rng)
    # Text in the prompt is not secret, unless it is the answer.
    named = sorted({str(word) for word in draft.words.values()} - {str(draft.answer)})
    data: dict[str, Any] = {"site": choice.site, "seed": site_seed, "start": draft.start, "named": named}
    if choice.options:
        data["options"] = dict(choice.options)
    return choice.task(task_id, split, prompt, data=data, gold=gold_of(draft, prompt))


@cache
def load_families() -> dict[str, WebFamily]:
    """Import the modules in each site's folder, which register their families; return the families by name."""
    for site in SITES:
        package = import_module(f"agentgym.tasks.web.{site}")
        for module in iter_modules(package.__path__):
            import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(FAMILIES.items()))
