"""Chains of two to four steps: a fact about an entity that is named only by its relation to another."""

from __future__ import annotations

from collections.abc import Callable

from agentgym.procedural import NoFit
from agentgym.tasks.search.entities import Entity, answers_for
from agentgym.tasks.search.questions import Feature, QuestionDraft, QuestionScene, family, noun

_ANYBODY = ("birth_place", "birth_date", "university", "hobby", "death_date", "occupation")
_MAKER = ("birth_place", "birth_date", "university", "hobby", "death_date")
"""Without the occupation, which a question about an author would give away."""
_PARENTS = ("father", "mother")
_RELATIVES = ("father", "mother", "spouse", "teacher")
_ANYWHERE = ("region", "river", "population", "elevation", "founded", "landmark", "trade", "twin", "former_name")
_WORKS = ("novel", "film", "painting", "song")
_PHRASINGS = ("{ask}", "I have been wondering: {ask}", "Can you work this out for me? {ask}")


def follow(s: QuestionScene, start: Entity, steps: tuple[tuple[str, ...], ...]) -> QuestionDraft:
    """Follow one relation per step, starting at an entity, and ask for the value of the last one.

    Raises `NoFit` if no page states a step, or if a step leads back to an entity of the chain.
    """
    entity, named, visited = start, start.mention, [start]
    for step in steps[:-1]:
        relation = s.relation(entity, step)
        named = noun(entity, relation, named)
        entity = s.read(entity, relation)
        if entity in visited:
            raise NoFit
        visited.append(entity)
    relation = s.relation(entity, steps[-1])
    answers = answers_for(s.read(entity, relation))
    if answers[0] == start.name:
        raise NoFit
    return QuestionDraft({"ask": s.ask(entity, relation, named)}, answers)


def _chain(name: str, level: int, types: tuple[str, ...], *steps: tuple[str, ...]) -> None:
    family(level, Feature.CHAIN, *_PHRASINGS, name=name)(_draw(types, steps))


def _draw(types: tuple[str, ...], steps: tuple[tuple[str, ...], ...]) -> Callable[[QuestionScene], QuestionDraft]:
    return lambda s: follow(s, s.any(*types), steps)


_chain("relative_fact", 2, ("person",), _RELATIVES, _ANYBODY)
_chain("creator_fact", 2, _WORKS, ("creator",), (*_MAKER, *_RELATIVES))
_chain("founder_fact", 2, ("company", "club", "festival", "prize"), ("founder",), (*_ANYBODY, *_RELATIVES))
_chain("birthplace_fact", 2, ("person",), ("birth_place", "death_place"), _ANYWHERE)
_chain("capital_fact", 2, ("region", "country"), ("capital",), _ANYWHERE)
_chain("leader_fact", 2, ("battle", "expedition", "election"), ("commander", "opponent", "leader", "winner"), _ANYBODY)

_chain("creator_birthplace", 3, _WORKS, ("creator",), ("birth_place",), _ANYWHERE)
_chain("relative_birthplace", 3, ("person",), _RELATIVES, ("birth_place",), _ANYWHERE)
_chain("house_founder", 3, ("novel", "film"), ("house",), ("founder",), (*_ANYBODY, *_PARENTS))
_chain("employer_founder", 3, ("person",), ("employer",), ("founder",), (*_ANYBODY, *_PARENTS))
_chain("birth_country", 3, ("person",), ("birth_place",), ("region",), ("country",))
_chain("prize_founder", 3, (*_WORKS, "person"), ("prize",), ("founder",), _ANYBODY)

_chain("creator_relative_birthplace", 4, _WORKS, ("creator",), _RELATIVES, ("birth_place",), _ANYWHERE)
_chain("filmed_author", 4, ("film",), ("based_on",), ("creator",), (*_RELATIVES, "birth_place"), (*_MAKER, *_ANYWHERE))
_chain("birth_country_fact", 4, ("person",), ("birth_place",), ("region",), ("country",), ("currency", "flower"))
_chain("grandparent_fact", 3, ("person",), _PARENTS, _PARENTS, _ANYBODY)
_chain("predecessor_founder", 4, ("company",), ("predecessor",), ("founder",), _PARENTS, _ANYBODY)
_chain("teacher_line", 5, _WORKS, ("creator",), ("teacher",), ("teacher",), _MAKER)
_chain("great_grandparent_fact", 5, ("person",), _PARENTS, _PARENTS, _PARENTS, _ANYBODY)
