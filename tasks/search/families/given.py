"""Questions that contain their own answer, so that any search is wasted."""

from __future__ import annotations

from agentgym.procedural import NoFit
from agentgym.tasks.search.entities import Count, answers_for, answers_for_number, say
from agentgym.tasks.search.pages import with_article
from agentgym.tasks.search.questions import Feature, QuestionDraft, QuestionScene, family


@family(
    1,
    Feature.NO_SEARCH,
    "{x} was born in {born} and died in {died}. How many years lie between the two?",
    "Born in {born}, {x} died in {died}. What is {died} minus {born}?",
    "Suppose that {x} was born in the year {born} and died in the year {died}. By how many years do the two differ?",
)
def given_lifespan(s: QuestionScene) -> QuestionDraft:
    """Ask for the difference between two given years."""
    person = s.any("person", having=["death_date"])
    born, died = person.facts["birth_date"].year, person.facts["death_date"].year
    return QuestionDraft({"x": person.mention, "born": born, "died": died}, answers_for_number(died - born))


@family(
    1,
    Feature.NO_SEARCH,
    "{one} was finished in {a}, {other} in {b}. Which of the two is older?",
    "Two works: {one} ({a}) and {other} ({b}). Which one came first?",
    "If {one} dates from {a} and {other} from {b}, which is the earlier work?",
)
def given_order(s: QuestionScene) -> QuestionDraft:
    """Ask for the earlier of two works whose years are given."""
    first, second = s.some(2, "novel", "film", "painting", "song")
    a, b = first.facts["year"], second.facts["year"]
    if a == b:
        raise NoFit
    words = {"one": first.mention, "a": a, "other": second.mention, "b": b}
    return QuestionDraft(words, answers_for(first if a < b else second))


@family(
    1,
    Feature.NO_SEARCH,
    '"{x}, {occupation}, was born in {place} on {date}." According to this sentence, where was {x} born?',
    'Read this: "On {date} {x}, {occupation}, was born in {place}." Which place does it give for the birth of {x}?',
    'A page says: "The birthplace of {x}, {occupation}, is {place}; the date is {date}." Which place does it name?',
)
def given_passage(s: QuestionScene) -> QuestionDraft:
    """Ask for a fact of a given sentence."""
    person = s.any("person")
    # The sentence says what the person was, so that even a namesake needs no other name.
    words = {"x": person.name, "occupation": with_article(person.facts["occupation"])}
    words |= {"place": person.facts["birth_place"].mention, "date": say(person.facts["birth_date"])}
    return QuestionDraft(words, answers_for(person.facts["birth_place"]))


@family(
    2,
    Feature.NO_SEARCH,
    "{x} has {a} inhabitants and {y} has {b}. How many is that altogether?",
    "What do the populations of {x} ({a}) and {y} ({b}) add up to?",
    "Given that {a} people live in {x} and {b} in {y}, how many people live in the two?",
)
def given_sum(s: QuestionScene) -> QuestionDraft:
    """Ask for the sum of two given populations."""
    first, second = s.some(2, "settlement")
    a, b = first.facts["population"], second.facts["population"]
    words = {"x": first.mention, "a": say(a), "y": second.mention, "b": say(b)}
    return QuestionDraft(words, answers_for(Count(a.value + b.value)))


@family(
    2,
    Feature.NO_SEARCH,
    "The mayors of {x} were {mayors}. Which of them was mayor in {year}?",
    "{x} had these mayors: {mayors}. Who held the office in {year}?",
    "Here is the list of the mayors of {x}: {mayors}. Whom does it name for {year}?",
)
def given_terms(s: QuestionScene) -> QuestionDraft:
    """Ask who held an office in a year, given the list of its holders."""
    place = s.choice([place for place in s.world.of("settlement") if "mayors" in place.facts])
    terms = place.facts["mayors"]
    term = s.choice(terms)
    words = {"x": place.mention, "mayors": say(terms), "year": s.between(term.start + 1, term.end - 1)}
    return QuestionDraft(words, answers_for(term.person))


@family(
    3,
    Feature.NO_SEARCH,
    "{x} was founded in {a}, and {y} {years} years later. In which year was {y} founded?",
    "If {y} was founded {years} years after {x}, and {x} in {a}, what is the founding year of {y}?",
    "Take {a} as the founding year of {x}. {y} followed {years} years later. Which year was that?",
)
def given_sequence(s: QuestionScene) -> QuestionDraft:
    """Ask for a year that follows from a given year and span."""
    first, second = s.some(2, "university", "company", "club", "festival", having=["founded"])
    a, b = first.facts["founded"], second.facts["founded"]
    if b <= a:
        raise NoFit
    return QuestionDraft({"x": first.mention, "a": a, "y": second.mention, "years": b - a}, [str(b)])
