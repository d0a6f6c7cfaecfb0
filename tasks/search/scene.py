"""A scene: a world to ask about, with the searches that answer what is asked."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from random import Random
from typing import Any, TypeVar

from agentgym.tasks.search.entities import Entity, capitalized, say
from agentgym.tasks.search.notes import Note
from agentgym.tasks.search.questions import NoFit
from agentgym.tasks.search.relations import RELATIONS, stated
from agentgym.tasks.search.world import World, section_for

T = TypeVar("T")
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


class Scene:
    """Draws entities from a world and reads their facts, noting how a reader would find each.

    Args:
        world: The world to ask about.
        rng: Where chance comes from.
        relations: The only relations that may be drawn; all if there are none.
    """

    def __init__(self, world: World, rng: Random, relations: Collection[str] = ()):
        self.world, self._rng, self._relations = world, rng, relations
        self.hops: list[dict[str, str]] = []
        """The searches so far: query, passage that states the fact, and what it says."""

    def pick(self, items: Sequence[T]) -> T:
        """Return any of the items. Raises `NoFit` if there are none."""
        if not items:
            raise NoFit
        return self._rng.choice(items)

    def between(self, low: int, high: int) -> int:
        """Return a number from `low` to `high`. Raises `NoFit` if there is none."""
        if high < low:
            raise NoFit
        return self._rng.randint(low, high)

    def any(self, *types: str, having: Collection[str] = ()) -> Entity:
        """Return any entity of the types that has all these relations. Raises `NoFit` after some tries."""
        entities = self.world.of(*types)
        for _ in range(60):
            entity = self.pick(entities)
            if all(relation in entity.facts for relation in having):
                return entity
        raise NoFit

    def some(self, number: int, *types: str, having: Collection[str] = ()) -> list[Entity]:
        """Return different entities with different names."""
        found = [self.any(*types, having=having) for _ in range(number)]
        if len({entity.name for entity in found}) < number:
            raise NoFit
        return found

    def relation(self, entity: Entity, among: Collection[str] = ()) -> str:
        """Return any relation that an entity's pages state, of some or of all. Raises `NoFit` if there is none."""
        # What tells a namesake apart stands in the question.
        told = "occupation" if entity.qualifier else ""
        names = [relation.name for relation in stated(entity) if relation.name != told]
        if self._relations:
            names = [name for name in names if name in self._relations]
        return self.pick([name for name in names if not among or name in among])

    def read(self, entity: Entity, relation: str) -> Any:
        """Return a fact and note the search that finds it. Raises `NoFit` where it is not stated."""
        if relation not in entity.facts:
            raise NoFit
        value = entity.facts[relation]
        self.search(entity, relation, say(value))
        return value

    def search(self, entity: Entity, relation: str, answer: str, query: str = "") -> None:
        """Note the search for a relation of an entity, stated or not; `query` where the name is not known yet."""
        place = section_for(entity, relation)
        words = _query_words(entity, relation) if relation in entity.facts else place.heading
        self._note(query or f"{entity.name} {entity.qualifier} {words}", place.passage_id(entity), answer)

    def search_note(self, note: Note, query: str, answer: str) -> None:
        """Note the search for a page that belongs to no article."""
        self._note(query, note.id, answer)

    def ask(self, entity: Entity, relation: str, x: str | None = None) -> str:
        """Return a question for a relation of an entity, called by its name or by `x`."""
        return capitalized(self.pick(RELATIONS[entity.type][relation].asks).format(x=x or entity.mention))

    def _note(self, query: str, document: str, answer: str) -> None:
        hop = {"query": " ".join(query.split()), "document": document, "answer": answer}
        if hop not in self.hops:
            self.hops.append(hop)


def _query_words(entity: Entity, relation: str) -> str:
    known = RELATIONS[entity.type].get(relation)
    return known.query if known else _LISTS[relation]


def noun(entity: Entity, relation: str, x: str | None = None) -> str:
    """Return a relation of an entity in words: `the father of X`."""
    return RELATIONS[entity.type][relation].noun.format(x=x or entity.mention)
