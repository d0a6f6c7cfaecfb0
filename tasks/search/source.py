"""`SearchTasks`: questions about generated encyclopedias, with splits that share no name and therefore no fact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, get_args

from agentgym.base.choices import one_of, some_of
from agentgym.base.errors import UsageError
from agentgym.core.task import Task
from agentgym.procedural import Families, ProceduralTasks, Wording
from agentgym.tasks.search.entities import capitalized
from agentgym.tasks.search.families import chain, compare, count, given, lookup, time, trap
from agentgym.tasks.search.questions import FAMILIES, Feature, QuestionDraft, QuestionFamily, QuestionScene
from agentgym.tasks.search.relations import RELATION_NAMES
from agentgym.tasks.search.world import DEFAULT_PASSAGES, open_world

FAMILY_MODULES = (lookup, chain, compare, count, time, trap, given)
"""The modules that fill `FAMILIES`."""
_NAMES_ITS_ANSWER = (Feature.COMPARISON, Feature.NO_SEARCH)


class SearchTasks(ProceduralTasks[QuestionFamily]):
    """Questions to answer by searching a generated encyclopedia. No split ends.

    Tasks take turns over the levels, and within a level over its families. After `questions_per_world` questions, the
    next world begins, with other names. Worlds of different splits share no name.

    Args:
        difficulty: The level or levels, 1 to 5; `None` for all.
        families: Names of the question families; `None` for all (of the levels).
        relations: The relations to ask about, such as "trade" or "birth_place"; `None` for all.
        passages: The minimum number of passages in a world, at least 1,000.
        questions_per_world: Number of consecutive questions about one world.
        worlds: Number of worlds of a split, which take turns; `None` for a new world every time.
        seed: Other seeds make other worlds and questions; splits stay disjoint across seeds.
        wording: `"natural"`, as people ask, or `"plain"`, in the few words that a very small model can learn.
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
        wording: Wording = "natural",
    ):
        self._wording: Wording = one_of("wording", wording, get_args(Wording))
        if questions_per_world < 1 or (worlds is not None and worlds < 1):
            raise UsageError(f"a split needs at least one world and one question: {questions_per_world=}, {worlds=}")
        super().__init__(difficulty, families, seed)
        self._relations = () if relations is None else some_of("relation", relations, RELATION_NAMES)
        self._passages, self._per_world, self._worlds = passages, questions_per_world, worlds

    @classmethod
    def known(cls) -> Families[QuestionFamily]:
        """Return all families by name."""
        return FAMILIES

    def _world(self, index: int) -> int:
        number = index // self._per_world
        return number if self._worlds is None else number % self._worlds

    def draw(self, family: QuestionFamily, split: str, index: int, rng: Random) -> Task:
        """Draw a question. Raises `NoFit` if this world offers none, or if the question gives its answer away."""
        number = self._world(index)
        scene = QuestionScene(open_world(split, number, self._seed, self._passages), rng, self._relations)
        draft = family.draw(scene)
        prompt = capitalized(family.word(draft, rng, self._wording))
        scene.need(family.feature in _NAMES_ITS_ANSWER or not _gives_away(prompt, draft.answers))
        return family.task(
            self.id_of(split, index),
            split,
            prompt,
            data={
                "corpus": {"world": number, "split": split, "seed": self._seed, "passages": self._passages},
                # Questions that offer choices contain the right answer too.
                "named": [str(word) for word in draft.words.values()],
            },
            gold=gold_of(family.name, draft, scene.hops, needs_search=family.feature is not Feature.NO_SEARCH),
            tags=(f"hops_{len(scene.hops)}",),
        )


def _gives_away(prompt: str, answers: Sequence[str]) -> bool:
    """Return whether the question happens to contain its answer. Numbers do not count."""
    return any(not answer.isdecimal() and answer.lower() in prompt.lower() for answer in answers[:1])


def gold_of(
    family: str, draft: QuestionDraft, hops: Sequence[Mapping[str, str]], needs_search: bool = True
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
