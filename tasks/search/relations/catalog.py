"""The relations that can be asked about an entity, by its type."""

from __future__ import annotations

from agentgym.tasks.search.entities import Entity
from agentgym.tasks.search.relations.places import COUNTRY, PERSON, REGION, SETTLEMENT
from agentgym.tasks.search.relations.relation import Relation
from agentgym.tasks.search.relations.things import (
    BATTLE,
    CLUB,
    COMPANY,
    ELECTION,
    EXPEDITION,
    FESTIVAL,
    FILM,
    NOVEL,
    PAINTING,
    PRIZES,
    SONG,
    UNIVERSITY,
)

RELATIONS: dict[str, dict[str, Relation]] = {
    "person": PERSON, "country": COUNTRY, "region": REGION, "settlement": SETTLEMENT,
    "novel": NOVEL, "film": FILM, "painting": PAINTING, "song": SONG,
    "university": UNIVERSITY, "company": COMPANY, "club": CLUB, "prize": PRIZES,
    "battle": BATTLE, "election": ELECTION, "expedition": EXPEDITION, "festival": FESTIVAL,
}  # fmt: skip
"""Relations with one value, by the type of the entity."""
RELATION_NAMES = sorted({name for relations in RELATIONS.values() for name in relations})


def stated(entity: Entity) -> list[Relation]:
    """Return the relations that the pages of an entity state."""
    return [relation for name, relation in RELATIONS[entity.type].items() if name in entity.facts]
