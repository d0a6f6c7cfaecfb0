"""Comparisons of articles: which is older, larger or earlier, and by how much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentgym.procedural import NoFit
from agentgym.tasks.search.entities import Count, Entity, answers_for, answers_for_number, enumeration, year_of
from agentgym.tasks.search.questions import Feature, QuestionDraft, QuestionScene, family

_CREATIONS = ("novel", "film", "painting", "song")


def _extreme(entities: list[Entity], value: Callable[[Entity], Any], most: bool) -> QuestionDraft:
    """Return the draft whose answer is the entity with the highest or lowest value. Raises `NoFit` on a tie."""
    values = [_number(value(entity)) for entity in entities]
    best = max(values) if most else min(values)
    if values.count(best) > 1:
        raise NoFit
    winner = entities[values.index(best)]
    return QuestionDraft({"x": enumeration([entity.mention for entity in entities], "or")}, answers_for(winner))


def _number(value: Any) -> Any:
    return value.value if isinstance(value, Count) else value


def _compare(s: QuestionScene, number: int, types: tuple[str, ...], relation: str, most: bool = False) -> QuestionDraft:
    entities = s.some(number, s.choice(types), having=[relation])
    return _extreme(entities, lambda entity: s.read(entity, relation), most)


@family(
    3,
    Feature.COMPARISON,
    "Who was born first: {x}?",
    "Which of these people was born earliest: {x}?",
    "By date of birth, who is the oldest: {x}?",
)
def born_first(s: QuestionScene) -> QuestionDraft:
    """Ask for the oldest of three people."""
    return _compare(s, 3, ("person",), "birth_date")


@family(
    3,
    Feature.COMPARISON,
    "Which settlement has the most inhabitants: {x}?",
    "Which of these has the largest population: {x}?",
    "By population, which is the largest: {x}?",
)
def most_inhabitants(s: QuestionScene) -> QuestionDraft:
    """Ask for the most populous of three settlements."""
    return _compare(s, 3, ("settlement",), "population", most=True)


@family(
    3,
    Feature.COMPARISON,
    "Which lies highest above sea level: {x}?",
    "Which of these settlements has the highest elevation: {x}?",
    "By elevation, which is the highest: {x}?",
)
def highest_elevation(s: QuestionScene) -> QuestionDraft:
    """Ask for the highest of three settlements."""
    return _compare(s, 3, ("settlement",), "elevation", most=True)


@family(
    3,
    Feature.COMPARISON,
    "Which came out first: {x}?",
    "Which of these works is the earliest: {x}?",
    "By year, which is the oldest work: {x}?",
)
def earliest_work(s: QuestionScene) -> QuestionDraft:
    """Ask for the earliest of three works of a kind."""
    return _compare(s, 3, _CREATIONS, "year")


@family(
    3,
    Feature.COMPARISON,
    "Which was founded first: {x}?",
    "Which of these is the oldest: {x}?",
    "By year of founding, which is the earliest: {x}?",
)
def founded_first(s: QuestionScene) -> QuestionDraft:
    """Ask for the oldest of three organisations or festivals of a kind."""
    return _compare(s, 3, ("university", "company", "club", "festival"), "founded")


@family(
    3,
    Feature.COMPARISON,
    "Which cost the most casualties: {x}?",
    "Which of these battles had the highest number of casualties: {x}?",
    "By casualties, which was the bloodiest: {x}?",
)
def most_casualties(s: QuestionScene) -> QuestionDraft:
    """Ask for the bloodiest of three battles."""
    return _compare(s, 3, ("battle",), "casualties", most=True)


@family(
    3,
    Feature.COMPARISON,
    "How many years apart were {a} and {b} founded?",
    "By how many years do the founding years of {a} and {b} differ?",
    "How many years lie between the founding of {a} and the founding of {b}?",
)
def years_between(s: QuestionScene) -> QuestionDraft:
    """Ask for the difference between two founding years."""
    first, second = s.some(2, "university", "company", "club", "festival", "settlement", having=["founded"])
    years = abs(s.read(first, "founded") - s.read(second, "founded"))
    if not years:
        raise NoFit
    return QuestionDraft({"a": first.mention, "b": second.mention}, answers_for_number(years))


@family(
    3,
    Feature.COMPARISON,
    "How many inhabitants do {a} and {b} have together?",
    "What is the combined population of {a} and {b}?",
    "What do you get if you add up the populations of {a} and {b}?",
)
def combined_population(s: QuestionScene) -> QuestionDraft:
    """Ask for the sum of two populations."""
    first, second = s.some(2, "settlement")
    total = s.read(first, "population").value + s.read(second, "population").value
    return QuestionDraft({"a": first.mention, "b": second.mention}, answers_for(Count(total)))


@family(
    4,
    Feature.COMPARISON,
    "Which of these has the maker who was born first: {x}?",
    "Which of these works was made by the person who was born earliest: {x}?",
    "If you compare the dates of birth of their makers, which work has the oldest one: {x}?",
)
def oldest_maker(s: QuestionScene) -> QuestionDraft:
    """Ask for the work with the oldest of two or three makers."""
    works = s.some(s.between(2, 3), s.choice(_CREATIONS), having=["creator"])
    if len({work.facts["creator"] for work in works}) < len(works):
        raise NoFit
    return _extreme(works, lambda work: s.read(s.read(work, "creator"), "birth_date"), most=False)


@family(
    5,
    Feature.COMPARISON,
    "Who was born in the settlement with the most inhabitants: {x}?",
    "Which of these people has the birthplace with the largest population: {x}?",
    "If you compare the populations of their birthplaces, who comes from the largest one: {x}?",
)
def largest_birthplace(s: QuestionScene) -> QuestionDraft:
    """Ask which of three people was born in the most populous place."""
    people = s.some(3, "person")
    return _extreme(people, lambda person: s.read(s.read(person, "birth_place"), "population"), most=True)


@family(
    4,
    Feature.COMPARISON,
    "How many years after the birth of its {maker} was {x} {made}, going by the years alone?",
    "How many years lie between the year in which the {maker} of {x} was born and the year in which it was {made}?",
    "Take the year in which {x} was {made} and subtract the year in which its {maker} was born. What is the result?",
)
def age_at_work(s: QuestionScene) -> QuestionDraft:
    """Ask for the years between a maker's birth and a work."""
    work = s.any(*_CREATIONS, having=["creator"])
    maker = s.read(work, "creator")
    years = s.read(work, "year") - year_of(s.read(maker, "birth_date"))
    named = {"novel": ("author", "published"), "film": ("director", "released"), "song": ("composer", "written")}
    word, verb = named.get(work.type, ("painter", "painted"))
    return QuestionDraft({"x": work.mention, "maker": word, "made": verb}, answers_for_number(years))


@family(
    5,
    Feature.COMPARISON,
    "Whose teacher was born first: {x}?",
    "Which of these people had the oldest teacher, by date of birth: {x}?",
    "If you compare when their teachers were born, whose teacher is the oldest: {x}?",
)
def oldest_teacher(s: QuestionScene) -> QuestionDraft:
    """Ask which of three people had the oldest teacher."""
    people = s.some(3, "person", having=["teacher"])
    if len({person.facts["teacher"] for person in people}) < len(people):
        raise NoFit
    return _extreme(people, lambda person: s.read(s.read(person, "teacher"), "birth_date"), most=False)
