"""The source of a question family's draws: a world, with a record of the searches that find its facts."""

from __future__ import annotations

from collections.abc import Collection
from random import Random
from typing import Any

from agentgym import procedural
from agentgym.procedural import NoFit
from agentgym.tasks.search.entities import Entity, capitalized, say
from agentgym.tasks.search.notes import Note
from agentgym.tasks.search.relations.catalog import RELATIONS, stated
from agentgym.tasks.search.world import World, section_for

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


class Scene(procedural.Scene):
    """Draws entities from a world and reads their facts. It records how a reader would find each fact.

    Args:
        world: The world to ask about.
        rng: The only source of randomness that a family may use.
        relations: The relations to draw from; all if empty.
    """

    def __init__(self, world: World, rng: Random, relations: Collection[str] = ()):
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
        found = [self.any(*types, having=having) for _ in range(number)]
        if len({entity.name for entity in found}) < number:
            raise NoFit
        return found

    def relation(self, entity: Entity, among: Collection[str] = ()) -> str:
        """Return a random relation (`among` these) that an entity's pages state. Raises `NoFit` if there is none."""
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

    def search_note(self, note: Note, query: str, answer: str) -> None:
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
    known = RELATIONS[entity.type].get(relation)
    return known.query if known else _LISTS[relation]


def noun(entity: Entity, relation: str, x: str | None = None) -> str:
    """Return a relation of an entity in words: `X's father`, but `the father of the author of Y`."""
    words, named = RELATIONS[entity.type][relation].noun, x or entity.mention
    if entity.type == "person" and not named.startswith("the ") and words.endswith(" of {x}"):
        return f"{named}'s {words.removeprefix('the ').removesuffix(' of {x}')}"
    return words.format(x=named)
