"""The relations that can be asked about an entity, by its type."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.tasks.data_files import read_data
from agentgym.tasks.search.entities import Entity


@dataclass(frozen=True)
class Relation:
    """A relation with one value.

    Args:
        name: Key in the facts of an entity.
        noun: The value in words, with `{x}` for the entity; questions about the value call it by this.
        query: Words for it in the section that states it.
        asks: Questions for the value, with `{x}` for the entity.
    """

    name: str
    noun: str
    query: str
    asks: tuple[str, ...]


RELATIONS: dict[str, dict[str, Relation]] = {
    entity_type: {
        name: Relation(name, spec["noun"], spec["query"], tuple(spec["asks"])) for name, spec in relations.items()
    }
    for entity_type, relations in read_data("search", "relations").items()
}
"""Relations with one value, by the type of the entity."""
RELATION_NAMES = sorted({name for relations in RELATIONS.values() for name in relations})


def stated(entity: Entity) -> list[Relation]:
    """Return the relations that the pages of an entity state."""
    return [relation for name, relation in RELATIONS[entity.type].items() if name in entity.facts]
