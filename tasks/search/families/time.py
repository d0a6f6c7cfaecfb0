"""Questions about time: who held an office or won a prize in a year, and who came before and after."""

from __future__ import annotations

from agentgym.procedural import NoFit
from agentgym.tasks.search.entities import Entity, Term, answers_for, answers_for_number, year_of
from agentgym.tasks.search.questions import Feature, QuestionDraft, QuestionScene, family, noun

_OFFICES = {
    "mayor": ("settlement", "mayors"),
    "president": ("country", "presidents"),
    "rector": ("university", "rectors"),
    "director": ("company", "directors"),
}


def _office(s: QuestionScene, fewest: int = 2) -> tuple[str, Entity, list[Term]]:
    office = s.choice(list(_OFFICES))
    type_, relation = _OFFICES[office]
    entity = s.choice([entity for entity in s.world.of(type_) if len(entity.facts.get(relation, ())) >= fewest])
    return office, entity, s.read(entity, relation)


def _year_within(s: QuestionScene, term: Term) -> int:
    """Return a year strictly inside a term, so that nobody else held the office."""
    return s.between(term.start + 1, term.end - 1)


def _holder(terms: list[Term], year: int) -> Entity:
    """Return the person who was in office for a whole year. Raises `NoFit` if nobody was."""
    holders = [term.person for term in terms if term.start < year < term.end]
    if not holders:
        raise NoFit
    return holders[0]


@family(
    2,
    Feature.TEMPORAL,
    "Who was {office} of {x} in {year}?",
    "In {year}, who held the office of {office} of {x}?",
    "Which person was the {office} of {x} in the year {year}?",
)
def holder_in_year(s: QuestionScene) -> QuestionDraft:
    """Ask who held an office in a year."""
    office, entity, terms = _office(s)
    term = s.choice(terms)
    return QuestionDraft(
        {"office": office, "x": entity.mention, "year": _year_within(s, term)}, answers_for(term.person)
    )


@family(
    2,
    Feature.TEMPORAL,
    "Who won {x} in {year}?",
    "Which person or work was awarded {x} in {year}?",
    "In {year}, who or what received {x}?",
)
def winner_in_year(s: QuestionScene) -> QuestionDraft:
    """Ask who or what won a prize in a year."""
    prize = s.any("prize", having=["winners"])
    award = s.choice(s.read(prize, "winners"))
    return QuestionDraft({"x": prize.mention, "year": award.year}, answers_for(award.winner))


@family(
    3,
    Feature.TEMPORAL,
    "Who was {office} of {x} directly {order} {y}?",
    "Directly {order} {y}, who held the office of {office} of {x}?",
    "Name the {office} of {x} who came directly {order} {y}.",
)
def holder_before_or_after(s: QuestionScene) -> QuestionDraft:
    """Ask who held an office before or after a person."""
    office, entity, terms = _office(s)
    later = s.between(1, len(terms) - 1)
    answer_index, named_index = s.choice([(later, later - 1), (later - 1, later)])
    order = "after" if answer_index > named_index else "before"
    if terms[later].start != terms[later - 1].end:
        raise NoFit
    words = {"office": office, "x": entity.mention, "order": order, "y": terms[named_index].person.mention}
    return QuestionDraft(words, answers_for(terms[answer_index].person))


@family(
    3,
    Feature.TEMPORAL,
    "Who was {office} of {x} for the longest time?",
    "Who held the office of {office} of {x} for the most years?",
    "Of all who were {office} of {x}, who had the longest term?",
)
def longest_term(s: QuestionScene) -> QuestionDraft:
    """Ask who held an office longest."""
    office, entity, terms = _office(s, fewest=3)
    years = [term.end - term.start for term in terms]
    if years.count(max(years)) > 1:
        raise NoFit
    return QuestionDraft({"office": office, "x": entity.mention}, answers_for(terms[years.index(max(years))].person))


@family(
    2,
    Feature.TEMPORAL,
    "How many years did {y} hold the office of {office} of {x}?",
    "For how many years was {y} {office} of {x}?",
    "How long, in years, was {y} {office} of {x}?",
)
def years_in_office(s: QuestionScene) -> QuestionDraft:
    """Ask how long a person held an office."""
    office, entity, terms = _office(s)
    term = s.choice(terms)
    words = {"office": office, "x": entity.mention, "y": term.person.mention}
    return QuestionDraft(words, answers_for_number(term.end - term.start))


@family(
    2,
    Feature.TEMPORAL,
    "How old was {x} when they died, in full years?",
    "At what age, in full years, did {x} die?",
    "How many full years did {x} live?",
)
def age_at_death(s: QuestionScene) -> QuestionDraft:
    """Ask how old a person became."""
    person = s.any("person", having=["death_date"])
    born, died = s.read(person, "birth_date"), s.read(person, "death_date")
    years = died.year - born.year - ((died.month, died.day) < (born.month, born.day))
    return QuestionDraft({"x": person.mention}, answers_for_number(years))


@family(
    3,
    Feature.CHAIN,
    "Where was the person born who was {office} of {x} in {year}?",
    "Someone was {office} of {x} in {year}. In which settlement was that person born?",
    "What is the birthplace of whoever was {office} of {x} in {year}?",
)
def holder_birthplace(s: QuestionScene) -> QuestionDraft:
    """Ask where the holder of an office in a year was born."""
    office, entity, terms = _office(s)
    term = s.choice(terms)
    words = {"office": office, "x": entity.mention, "year": _year_within(s, term)}
    return QuestionDraft(words, answers_for(s.read(term.person, "birth_place")))


@family(
    4,
    Feature.TEMPORAL,
    "Who was {office} of {x} in {when}?",
    "Take {when}. Who was {office} of {x} then?",
    "Name the {office} of {x} in {when}.",
)
def holder_at_event(s: QuestionScene) -> QuestionDraft:
    """Ask who held an office in the year of another event."""
    work = s.any("novel", "film", "painting", "song", "expedition", "company")
    relation = s.relation(work, ("year", "founded"))
    year = year_of(s.read(work, relation))
    offices = [
        (office, entity, entity.facts[key])
        for office, (type_, key) in _OFFICES.items()
        for entity in s.world.of(type_)
        if any(term.start < year < term.end for term in entity.facts.get(key, ()))
    ]
    office, entity, _ = s.choice(offices)
    holder = _holder(s.read(entity, _OFFICES[office][1]), year)
    return QuestionDraft({"office": office, "x": entity.mention, "when": noun(work, relation)}, answers_for(holder))


@family(
    4,
    Feature.TEMPORAL,
    "In {year}, who was mayor of the birthplace of {x}?",
    "Who was mayor, in {year}, of the settlement in which {x} was born?",
    "Take the birthplace of {x}. Who was its mayor in {year}?",
)
def birthplace_mayor(s: QuestionScene) -> QuestionDraft:
    """Ask who was mayor of a person's birthplace in a year."""
    places = [place for place in s.world.of("settlement") if "mayors" in place.facts]
    place = s.choice(places)
    person = s.choice([person for person in s.world.of("person") if person.facts["birth_place"] is place])
    term = s.choice(s.read(s.read(person, "birth_place"), "mayors"))
    if term.person is person:
        raise NoFit
    return QuestionDraft({"x": person.mention, "year": _year_within(s, term)}, answers_for(term.person))


@family(
    5,
    Feature.TEMPORAL,
    "In {when}, who was mayor of the birthplace of {x}?",
    "Who was mayor of the birthplace of {x} in {when}?",
    "Take the settlement in which {x} was born. Who was its mayor in {when}?",
)
def birthplace_mayor_at_event(s: QuestionScene) -> QuestionDraft:
    """Ask who was mayor of a person's birthplace in the year of a work."""
    place = s.choice([place for place in s.world.of("settlement") if "mayors" in place.facts])
    person = s.choice([person for person in s.world.of("person") if person.facts["birth_place"] is place])
    work = s.any("novel", "film", "painting", "song")
    mayor = _holder(s.read(s.read(person, "birth_place"), "mayors"), s.read(work, "year"))
    if mayor is person:
        raise NoFit
    return QuestionDraft({"x": person.mention, "when": noun(work, "year")}, answers_for(mayor))


@family(
    5,
    Feature.TEMPORAL,
    "Which work by {x} was the first to come out after the year in which they married?",
    "What is the earliest work by {x} from after the year of their wedding?",
    "After the year in which {x} married, which work of theirs came first?",
)
def first_work_after(s: QuestionScene) -> QuestionDraft:
    """Ask for the first of a person's works after the year of another event."""
    person = s.any("person", having=["works", "married"])
    married = s.read(person, "married")
    works = s.read(person, "works")
    later = {work: year for work in works if (year := s.read(work, "year")) > married}
    if len(works) < 3 or not 0 < len(later) < len(works):
        raise NoFit
    first = min(later, key=lambda work: later[work])
    return QuestionDraft({"x": person.mention, "when": noun(person, "married")}, answers_for(first))
