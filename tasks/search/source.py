"""`SearchTasks`: questions about generated encyclopedias, with splits that share no name and so no fact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from agentgym.choices import some_of
from agentgym.errors import UsageError
from agentgym.procedural import ProceduralTasks, choose_families
from agentgym.task import Task
from agentgym.tasks.search import (
    families_chain,
    families_compare,
    families_count,
    families_given,
    families_lookup,
    families_time,
    families_trap,
)
from agentgym.tasks.search.entities import capitalized
from agentgym.tasks.search.names import SPLITS
from agentgym.tasks.search.questions import FAMILIES, Draft, Family, Feature, NoFit
from agentgym.tasks.search.relations import RELATION_NAMES
from agentgym.tasks.search.scene import Scene
from agentgym.tasks.search.world import DEFAULT_PASSAGES, open_world

FAMILY_MODULES = (
    families_lookup,
    families_chain,
    families_compare,
    families_count,
    families_time,
    families_trap,
    families_given,
)
"""The modules that fill `FAMILIES`."""
_NAMES_ITS_ANSWER = (Feature.COMPARISON, Feature.NO_SEARCH)


class SearchTasks(ProceduralTasks[Family]):
    """Questions whose answers are found by searching a generated encyclopedia. Every split is without end.

    Tasks go round over the levels, and within a level over its families. After `questions_per_world` of them comes
    another world, with other names: no split has a name of another split's.

    Args:
        difficulty: Level or levels to ask, 1 to 5; `None` for all.
        families: Names of the question families to ask; `None` for all (of the levels).
        relations: The only relations (such as "trade" or "birth_place") that families draw from; `None` for all.
        passages: The fewest passages of a world, from 1,000.
        questions_per_world: How many questions in a row are about one world.
        worlds: How many worlds a split has, used in turn; `None` for a new one every time (each is made when needed).
        seed: Other seeds make other worlds and questions; splits stay disjoint across seeds.
    """

    prefix = "search"
    draws = 400
    more = "passages, families or relations"

    def __init__(
        self,
        difficulty: int | Sequence[int] | None = None,
        families: Sequence[str] | None = None,
        relations: Sequence[str] | None = None,
        passages: int = DEFAULT_PASSAGES,
        questions_per_world: int = 500,
        worlds: int | None = 4,
        seed: int = 0,
    ):
        if questions_per_world < 1 or (worlds is not None and worlds < 1):
            raise UsageError(f"a split needs a world and a question: {questions_per_world=}, {worlds=}")
        super().__init__(seed)
        self._levels = choose_families(FAMILIES, difficulty, families)
        self._relations = () if relations is None else some_of("relation", relations, RELATION_NAMES)
        self._passages, self._per_world, self._worlds = passages, questions_per_world, worlds

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return SPLITS

    def levels(self, split: str) -> list[list[str]]:
        """Return the names of the families, by level."""
        return self._levels

    def family(self, name: str) -> Family:
        """Return a family."""
        return FAMILIES[name]

    def _world(self, index: int) -> int:
        number = index // self._per_world
        return number if self._worlds is None else number % self._worlds

    def draw(self, family: Family, split: str, index: int, rng: Random) -> Task | None:
        """Draw a question; `None` if this world has none, or it gives its answer away."""
        number = self._world(index)
        scene = Scene(open_world(split, number, self._seed, self._passages), rng, self._relations)
        try:
            draft = family.draw(scene)
        except NoFit:
            return None
        prompt = capitalized(rng.choice(family.phrasings).format_map(draft.words))
        if family.feature not in _NAMES_ITS_ANSWER and _gives_away(prompt, draft.answers):
            return None
        return Task(
            id=f"search/{split}/{index}",
            split=split,
            prompt=prompt,
            difficulty=family.level,
            data={
                "corpus": {"world": number, "split": split, "seed": self._seed, "passages": self._passages},
                # Questions that give choices name the right one too.
                "named": [str(word) for word in draft.words.values()],
            },
            gold=gold_of(family.name, draft, scene.hops, needs_search=family.feature is not Feature.NO_SEARCH),
            tags=(family.name, f"L{family.level}", family.feature.value, f"hops_{len(scene.hops)}"),
        )


def _gives_away(prompt: str, answers: Sequence[str]) -> bool:
    """Whether the answer, other than a number, happens to stand in the question."""
    return any(not answer.isdecimal() and answer.lower() in prompt.lower() for answer in answers[:1])


def gold_of(
    family: str, draft: Draft, hops: Sequence[Mapping[str, str]], needs_search: bool = True
) -> Mapping[str, Any]:
    """Return the gold of a drafted question."""
    return {
        "answers": draft.answers,
        "evidence": list(dict.fromkeys(hop["document"] for hop in hops)),
        "unanswerable": not draft.answers,
        "hops": [dict(hop) for hop in hops],
        "hop_count": len(hops),
        "family": family,
        "needs_search": needs_search,
        **draft.extra,
    }
