"""Question families: their definition, and how functions register as one."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

from agentgym import procedural
from agentgym.procedural import Families, NoFit, Wording
from agentgym.tasks.search.entities import Entity, capitalized, say
from agentgym.tasks.search.notes import NotePage
from agentgym.tasks.search.pages import section_for
from agentgym.tasks.search.relations import RELATIONS, stated
from agentgym.tasks.search.world import SearchWorld

_LISTS = {
    "works": "works",
    "children": "personal life children",
    "mayors": "mayors",
    "presidents": "presidents",
    "rectors": "rectors",
    "directors": "directors",
    "winners": "winners",
    "settlements": "settlements",
    "credited": "author composer",
}


class Feature(StrEnum):
    """The ability that the questions of a family test."""

    LOOKUP = "lookup"
    CHAIN = "chain"
    COMPARISON = "comparison"
    AGGREGATION = "aggregation"
    TEMPORAL = "temporal"
    NAMESAKE = "namesake"
    ALIAS = "alias"
    STALE = "stale"
    INJECTION = "injection"
    UNANSWERABLE = "unanswerable"
    NO_SEARCH = "no_search"
    MASKED = "masked"


class QuestionScene(procedural.Scene):
    """Draws entities from a world and reads their facts. It records how a reader would find each fact.

    Args:
        world: The world to ask about.
        rng: The only source of randomness that a family may use.
        relations: The relations to draw from; all if empty.
    """

    def __init__(self, world: SearchWorld, rng: Random, relations: Collection[str] = ()):
        super().__init__(rng)
        self.world, self._relations = world, relations
        self.hops: list[dict[str, str]] = []
        """The searches so far: the query, the passage that states the fact, and the fact."""

    def between(self, low: int, high: int) -> int:
        """Return a random number from `low` to `high`. Raises `NoFit` if the range is empty."""
        if high < low:
            raise NoFit
        return self.rng.randint(low, high)

    def any(self, *types: str, having: Collection[str] = ()) -> Entity:
        """Return a random entity of the types that has all these relations. Raises `NoFit` after some tries."""
        entities = self.world.of(*types)
        for _ in range(60):
            entity = self.choice(entities)
            if all(relation in entity.facts for relation in having):
                return entity
        raise NoFit

    def some(self, number: int, *types: str, having: Collection[str] = ()) -> list[Entity]:
        """Return random entities with different names."""
        entities = [self.any(*types, having=having) for _ in range(number)]
        if len({entity.name for entity in entities}) < number:
            raise NoFit
        return entities

    def relation(self, entity: Entity, among: Collection[str] = ()) -> str:
        """Return a random relation (`among` these) that an entity's pages state. Raises `NoFit` if no page does."""
        # The question itself gives a namesake's occupation away.
        qualifying = "occupation" if entity.qualifier else ""
        names = [relation.name for relation in stated(entity) if relation.name != qualifying]
        if self._relations:
            names = [name for name in names if name in self._relations]
        return self.choice([name for name in names if not among or name in among])

    def read(self, entity: Entity, relation: str) -> Any:
        """Return a fact and record the search that finds it. Raises `NoFit` if no page states it."""
        if relation not in entity.facts:
            raise NoFit
        value = entity.facts[relation]
        self.search(entity, relation, say(value))
        return value

    def search(self, entity: Entity, relation: str, answer: str, query: str = "") -> None:
        """Record the search for a relation of an entity, stated or not; pass `query` if the name is not known yet."""
        place = section_for(entity, relation)
        words = _query_words(entity, relation) if relation in entity.facts else place.heading
        self._note(query or f"{entity.name} {entity.qualifier} {words}", place.passage_id(entity), answer)

    def search_note(self, note: NotePage, query: str, answer: str) -> None:
        """Record the search for a page that belongs to no article."""
        self._note(query, note.id, answer)

    def ask(self, entity: Entity, relation: str, x: str | None = None) -> str:
        """Return a question about a relation of an entity, named as usual or as `x`."""
        return capitalized(self.choice(RELATIONS[entity.type][relation].asks).format(x=x or entity.mention))

    def _note(self, query: str, document: str, answer: str) -> None:
        hop = {"query": " ".join(query.split()), "document": document, "answer": answer}
        if hop not in self.hops:
            self.hops.append(hop)


def _query_words(entity: Entity, relation: str) -> str:
    definition = RELATIONS[entity.type].get(relation)
    return definition.query if definition else _LISTS[relation]


def noun(entity: Entity, relation: str, x: str | None = None) -> str:
    """Return a relation of an entity in words: `X's father`, but `the father of the author of Y`."""
    words, named = RELATIONS[entity.type][relation].noun, x or entity.mention
    if entity.type == "person" and not named.startswith("the ") and words.endswith(" of {x}"):
        return f"{named}'s {words.removeprefix('the ').removesuffix(' of {x}')}"
    return words.format(x=named)


_UNIVERSITY = re.compile(r"(?<!the )(?<!The )\b(University of [^\W\d_]|[^\W\d_]+ Academy of Sciences)")
_PLURAL = {"is": "are", "was": "were", "has": "have", "does": "do"}
_ASKED_DAYS = re.compile(rf"\b({'|'.join(_PLURAL)}) (the \S+ Days)\b", re.IGNORECASE)
_STATED_DAYS = re.compile(rf"(?<!of )\b(the \S+ Days) ({'|'.join(_PLURAL)})\b", re.IGNORECASE)
_BEGINNING = re.compile(r"(?:^|(?<=[.?!] )|(?<=[.?!:] \"))the ")


@dataclass(frozen=True)
class QuestionDraft:
    """A drawn question without its wording.

    Args:
        words: The values that the phrasings refer to.
        answers: Accepted answers, the canonical one first; empty if the pages do not state any.
        extra: Further entries of the gold.
    """

    words: Mapping[str, Any]
    answers: list[str]
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class QuestionFamily(procedural.Family[QuestionScene, QuestionDraft]):
    """A kind of question."""

    feature: Feature

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of all questions of this family."""
        return (*super().tags, self.feature.value)

    def word(self, draft: QuestionDraft, rng: Random, wording: Wording = "natural") -> str:
        """Return the draft's text in a random phrasing, with names as a sentence has them."""
        return in_prose(super().word(draft, rng, wording))


FAMILIES: Families[QuestionFamily] = Families(QuestionFamily)
"""Every family by name."""


def in_prose(text: str) -> str:
    """Return a question with its names in English: `the University of X`, `Where are the X Days?`, `The X Fair was`."""
    text = _UNIVERSITY.sub(r"the \1", text)
    text = _ASKED_DAYS.sub(lambda match: f"{_plural(match[1])} {match[2]}", text)
    text = _STATED_DAYS.sub(lambda match: f"{match[1]} {_plural(match[2])}", text)
    return _BEGINNING.sub("The ", text)


def _plural(verb: str) -> str:
    many = _PLURAL[verb.lower()]
    return many.capitalize() if verb[0].isupper() else many


def family(
    level: int, feature: Feature, *phrasings: str, name: str | None = None, plain: tuple[str, ...] = ()
) -> Callable[[Callable[[QuestionScene], QuestionDraft]], Callable[[QuestionScene], QuestionDraft]]:
    """Return a decorator that registers a function that draws questions, by default under the function's name."""
    return FAMILIES.register(level, *phrasings, name=name, feature=feature, plain=plain)
