"""Questions about one fact of one article."""

from __future__ import annotations

from agentgym.tasks.search.entities import answers_for, answers_for_number
from agentgym.tasks.search.questions import Feature, QuestionDraft, QuestionScene, family

_PHRASINGS = ("{ask}", "I'd like to know this: {ask}", "Can you find this out for me? {ask}")
_PLAIN = ("{ask}", "Look this up: {ask}", "Answer with what the encyclopedia says. {ask}")


def _fact(s: QuestionScene, *types: str, among: tuple[str, ...] = ()) -> QuestionDraft:
    entity = s.any(*types)
    relation = s.relation(entity, among)
    return QuestionDraft({"ask": s.ask(entity, relation)}, answers_for(s.read(entity, relation)))


@family(1, Feature.LOOKUP, *_PHRASINGS, plain=_PLAIN)
def person_origin(s: QuestionScene) -> QuestionDraft:
    """Ask when or where a person was born, or for their occupation."""
    return _fact(s, "person", among=("birth_place", "birth_date", "occupation"))


@family(1, Feature.LOOKUP, *_PHRASINGS, plain=_PLAIN)
def person_fact(s: QuestionScene) -> QuestionDraft:
    """Ask for anything else about a person."""
    return _fact(
        s, "person", among=("mother", "father", "university", "teacher", "spouse", "hobby", "employer", "prize")
    )


@family(1, Feature.LOOKUP, *_PHRASINGS, plain=_PLAIN)
def settlement_fact(s: QuestionScene) -> QuestionDraft:
    """Ask for anything about a settlement."""
    return _fact(s, "settlement")


@family(1, Feature.LOOKUP, *_PHRASINGS, plain=_PLAIN)
def country_fact(s: QuestionScene) -> QuestionDraft:
    """Ask for anything about a region or a country."""
    return _fact(s, "region", "country")


@family(1, Feature.LOOKUP, *_PHRASINGS, plain=_PLAIN)
def work_maker(s: QuestionScene) -> QuestionDraft:
    """Ask for the maker or year of a work."""
    return _fact(s, "novel", "film", "painting", "song", among=("creator", "year"))


@family(1, Feature.LOOKUP, *_PHRASINGS, plain=_PLAIN)
def work_fact(s: QuestionScene) -> QuestionDraft:
    """Ask for anything about a work."""
    return _fact(s, "novel", "film", "painting", "song")


@family(1, Feature.LOOKUP, *_PHRASINGS, plain=_PLAIN)
def organisation_fact(s: QuestionScene) -> QuestionDraft:
    """Ask for anything about a university, company, club or prize."""
    return _fact(s, "university", "company", "club", "prize")


@family(1, Feature.LOOKUP, *_PHRASINGS, plain=_PLAIN)
def event_fact(s: QuestionScene) -> QuestionDraft:
    """Ask for anything about a battle, election, expedition or festival."""
    return _fact(s, "battle", "election", "expedition", "festival")


@family(2, Feature.NAMESAKE, *_PHRASINGS)
def namesake_fact(s: QuestionScene) -> QuestionDraft:
    """Ask for a fact about a person or thing that shares its name with another."""
    namesakes = [entity for entity in s.world.of("person", "novel", "film") if entity.qualifier]
    entity = s.choice(namesakes)
    relation = s.relation(entity)
    return QuestionDraft({"ask": s.ask(entity, relation)}, answers_for(s.read(entity, relation)))


@family(
    2,
    Feature.AGGREGATION,
    "How many {what} {x} are listed in the encyclopedia?",
    "How many {what} {x} does the encyclopedia list?",
    "How many {what} {x} are there, according to the encyclopedia?",
)
def count_listed(s: QuestionScene) -> QuestionDraft:
    """Ask for the length of a list: a person's children or works, the settlements of a region."""
    type_, relation, what = s.choice(
        [
            ("person", "children", "children of"),
            ("person", "works", "works by"),
            ("region", "settlements", "settlements in"),
        ]
    )
    entity = s.any(type_, having=[relation])
    return QuestionDraft({"what": what, "x": entity.mention}, answers_for_number(len(s.read(entity, relation))))
