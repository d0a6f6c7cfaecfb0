"""Aggregation: counting, choosing and adding up over the articles that a list names."""

from __future__ import annotations

from agentgym.procedural import NoFit
from agentgym.tasks.search.entities import Count, Entity, answers_for, answers_for_number
from agentgym.tasks.search.questions import Feature, QuestionDraft, QuestionScene, family

_MOST = 8
"""Longest list whose members have to be looked up one by one."""


def _listed(s: QuestionScene, entity: Entity, relation: str, fewest: int = 2) -> list[Entity]:
    """Return the entities of a list, unless it is too long for all of their articles to be read."""
    members = s.read(entity, relation)
    if not fewest <= len(members) <= _MOST:
        raise NoFit
    return members


def _count(count: int) -> list[str]:
    """Return a count as answers. Raises `NoFit` for a count of 0, which nobody would ask for."""
    if not count:
        raise NoFit
    return answers_for_number(count)


def _only(values: list[Entity]) -> list[str]:
    """Return the only entity as answers. Raises `NoFit` unless there is exactly one."""
    if len(values) != 1:
        raise NoFit
    return answers_for(values[0])


def _extreme(values: dict[Entity, int], most: bool) -> list[str]:
    best = max(values.values()) if most else min(values.values())
    return _only([entity for entity, value in values.items() if value == best])


@family(
    3,
    Feature.AGGREGATION,
    "How many works by {x} date from after {year}?",
    "How many of the works by {x} are more recent than {year}?",
    "Of the works by {x}, how many came after the year {year}?",
)
def works_after(s: QuestionScene) -> QuestionDraft:
    """Ask how many of a person's works are later than a year."""
    person = s.any("person", having=["works"])
    years = [s.read(work, "year") for work in _listed(s, person, "works")]
    year = s.between(min(years), max(years) - 1)
    return QuestionDraft({"x": person.mention, "year": year}, _count(sum(work_year > year for work_year in years)))


@family(
    3,
    Feature.AGGREGATION,
    "Which of the works by {x} is the {which}?",
    "Of all works by {x}, which is the {which}?",
    "By year, what is the {which} work by {x}?",
)
def first_or_last_work(s: QuestionScene) -> QuestionDraft:
    """Ask for the earliest or latest of a person's works."""
    person = s.any("person", having=["works"])
    years = {work: s.read(work, "year") for work in _listed(s, person, "works")}
    last = s.choice([True, False])
    return QuestionDraft({"x": person.mention, "which": "latest" if last else "earliest"}, _extreme(years, most=last))


@family(
    3,
    Feature.AGGREGATION,
    "Which of the children of {x} was born {which}?",
    "Who was born {which} of all the children of {x}?",
    "Of the children of {x}, which one was born {which}?",
)
def eldest_child(s: QuestionScene) -> QuestionDraft:
    """Ask for a person's first or last child."""
    person = s.any("person", having=["children"])
    born = {child: s.read(child, "birth_date").toordinal() for child in _listed(s, person, "children")}
    last = s.choice([True, False])
    return QuestionDraft({"x": person.mention, "which": "last" if last else "first"}, _extreme(born, most=last))


@family(
    4,
    Feature.AGGREGATION,
    "How many of the children of {x} were born in {place}?",
    "How many of the children of {x} have {place} as their birthplace?",
    "{place} is the birthplace of how many children of {x}?",
)
def children_born_in(s: QuestionScene) -> QuestionDraft:
    """Ask how many of a person's children were born in a place."""
    person = s.any("person", having=["children"])
    places = [s.read(child, "birth_place") for child in _listed(s, person, "children", fewest=3)]
    place = s.choice(places)
    return QuestionDraft({"x": person.mention, "place": place.mention}, _count(places.count(place)))


@family(
    4,
    Feature.AGGREGATION,
    "Which of the children of {x} became known as {occupation}?",
    "Which child of {x} was {occupation} by profession?",
    "One child of {x} was {occupation}. Who?",
)
def child_with_occupation(s: QuestionScene) -> QuestionDraft:
    """Ask for the only child of a person who has a given occupation."""
    person = s.any("person", having=["children"])
    children = _listed(s, person, "children", fewest=3)
    occupation = s.choice([s.read(child, "occupation") for child in children])
    article = "an" if occupation[0] in "aeiou" else "a"
    matches = [child for child in children if child.facts["occupation"] == occupation]
    return QuestionDraft({"x": person.mention, "occupation": f"{article} {occupation}"}, _only(matches))


@family(
    4,
    Feature.AGGREGATION,
    "Which of the works by {x} is set in {place}?",
    "{place} is the setting of which work by {x}?",
    "One work by {x} is set in {place}. What is its title?",
)
def work_set_in(s: QuestionScene) -> QuestionDraft:
    """Ask for the only work of a person that is set in a given place."""
    person = s.any("person", having=["works"])
    works = [work for work in _listed(s, person, "works", fewest=3) if "setting" in work.facts]
    place = s.choice([s.read(work, "setting") for work in works])
    return QuestionDraft(
        {"x": person.mention, "place": place.mention}, _only([w for w in works if w.facts["setting"] is place])
    )


@family(
    4,
    Feature.AGGREGATION,
    "How many pages do the first editions of all novels by {x} have together?",
    "Add up the pages of the first editions of the novels by {x}. What is the total?",
    "What is the total number of pages of the novels by {x}, in their first editions?",
)
def total_pages(s: QuestionScene) -> QuestionDraft:
    """Ask for the total number of pages of a person's novels."""
    person = s.any("person", having=["works"])
    works = _listed(s, person, "works")
    total = sum(s.read(work, "pages").value for work in works)
    return QuestionDraft({"x": person.mention}, answers_for(Count(total)))


@family(
    5,
    Feature.AGGREGATION,
    "Which settlement of the region of {x} has the {which}?",
    "Of all settlements in the region of {x}, which has the {which}?",
    "In the region of {x}, which settlement has the {which}?",
)
def extreme_settlement(s: QuestionScene) -> QuestionDraft:
    """Ask for the highest, largest or oldest settlement of a region."""
    region = s.any("region")
    relation, most, which = s.choice(
        [
            ("elevation", True, "highest elevation"),
            ("elevation", False, "lowest elevation"),
            ("founded", False, "earliest year of founding"),
            ("population", False, "smallest population"),
        ]
    )
    values = {place: s.read(place, relation) for place in _listed(s, region, "settlements")}
    numbers = {place: value.value if isinstance(value, Count) else value for place, value in values.items()}
    return QuestionDraft({"x": region.mention, "which": which}, _extreme(numbers, most))


@family(
    5,
    Feature.AGGREGATION,
    "How many children of the {maker} of {x} were born before {year}?",
    "How many of the children of the {maker} of {x} have a date of birth before {year}?",
    "How many children did the {maker} of {x} have before {year}?",
)
def makers_children(s: QuestionScene) -> QuestionDraft:
    """Ask how many children of a work's maker were born before a year."""
    work = s.any("novel", "film", "painting", "song", having=["creator"])
    maker = s.read(work, "creator")
    children = _listed(s, maker, "children", fewest=3)
    years = sorted(s.read(child, "birth_date").year for child in children)
    year = s.between(years[0] + 1, years[-1])
    word = {"novel": "author", "film": "director", "song": "composer"}.get(work.type, "painter")
    return QuestionDraft({"x": work.mention, "maker": word, "year": year}, _count(sum(born < year for born in years)))


@family(
    5,
    Feature.AGGREGATION,
    "Which of the people who headed {x} as {office} was born first?",
    "Of all those on record as {office} of {x}, who was born earliest?",
    "Among those who held the office of {office} of {x}, who is the oldest by date of birth?",
)
def oldest_holder(s: QuestionScene) -> QuestionDraft:
    """Ask for the oldest of the holders of an office."""
    type_, relation, office = s.choice(
        [("settlement", "mayors", "mayor"), ("country", "presidents", "president"), ("university", "rectors", "rector")]
    )
    entity = s.choice([entity for entity in s.world.of(type_) if relation in entity.facts])
    terms = s.read(entity, relation)
    if not 2 <= len(terms) <= _MOST:
        raise NoFit
    born = {term.person: s.read(term.person, "birth_date").toordinal() for term in terms}
    return QuestionDraft({"x": entity.mention, "office": office}, _extreme(born, most=False))
