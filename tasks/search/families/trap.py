"""Questions that trip a careless reader: aliases, stale and injected pages, and facts that no page states."""

from __future__ import annotations

from agentgym.procedural import NoFit
from agentgym.tasks.search.building.world import last_year
from agentgym.tasks.search.entities import Entity, answers_for
from agentgym.tasks.search.families.chain import follow
from agentgym.tasks.search.notes import NotePage
from agentgym.tasks.search.questions import Feature, QuestionDraft, QuestionScene, family, noun
from agentgym.tasks.search.relations import RELATIONS
from agentgym.tasks.search.vocabulary import PRESENT

_PHRASINGS = ("{ask}", "Please look carefully: {ask}", "What does the encyclopedia say? {ask}")
_WORKS = ("novel", "film", "painting", "song")
_ANYBODY = ("birth_place", "birth_date", "university", "hobby", "mother", "father", "spouse")
_MAYBE = {
    "person": ("university", "teacher", "spouse", "hobby", "mother"),
    "settlement": ("river", "twin", "former_name", "landmark"),
    "novel": ("setting", "dedicated_to", "hero", "prize"),
    "film": ("setting", "based_on", "hero", "prize"),
    "painting": ("setting", "dedicated_to", "prize"),
    "battle": ("treaty",),
    "expedition": ("sponsor",),
    "club": ("ground",),
    "university": ("library",),
}
"""Relations that some pages of a type state and others do not."""


@family(2, Feature.ALIAS, *_PHRASINGS)
def alias_fact(s: QuestionScene) -> QuestionDraft:
    """Ask for a fact about a person known by a pen name or nickname."""
    note = s.choice([note for note in s.world.notes if note.type == "alias"])
    person = _behind(s, note)
    relation = s.relation(person, _ANYBODY)
    return QuestionDraft({"ask": s.ask(person, relation, _alias(note))}, answers_for(s.read(person, relation)))


@family(2, Feature.ALIAS, *_PHRASINGS)
def former_name_fact(s: QuestionScene) -> QuestionDraft:
    """Ask for a fact about a settlement under its former name."""
    place = s.any("settlement", having=["former_name"])
    former = place.facts["former_name"]
    s.search(place, "former_name", place.name, query=f"settlement {former}")
    relation = s.relation(place, ("region", "population", "elevation", "twin", "landmark", "trade"))
    ask = s.ask(place, relation, f"the settlement formerly called {former}")
    return QuestionDraft({"ask": ask}, answers_for(s.read(place, relation)))


@family(3, Feature.ALIAS, *_PHRASINGS)
def pen_name_maker(s: QuestionScene) -> QuestionDraft:
    """Ask for a fact about the maker of a work whose page gives only a pen name."""
    work = s.any("novel", "song", having=["credited"])
    pen_name = s.read(work, "credited")
    note = next(note for note in s.world.notes if note.type == "alias" and _alias(note) == pen_name)
    person = _behind(s, note)
    relation = s.relation(person, _ANYBODY)
    return QuestionDraft({"ask": s.ask(person, relation, noun(work, "creator"))}, answers_for(s.read(person, relation)))


@family(2, Feature.STALE, *_PHRASINGS)
def stale_fact(s: QuestionScene) -> QuestionDraft:
    """Ask for a fact that an old edition got wrong."""
    note = _note(s, "edition")
    entity, relation = _target(note)
    answers = answers_for(s.read(entity, relation))
    return QuestionDraft({"ask": s.ask(entity, relation)}, answers, {"stale": note.wrong})


@family(3, Feature.STALE, *_PHRASINGS)
def stale_chain(s: QuestionScene) -> QuestionDraft:
    """Ask for a fact two steps away that an old edition got wrong."""
    note = _note(s, "edition")
    entity, relation = _target(note)
    start, step = _leads_to(s, entity)
    draft = follow(s, start, ((step,), (relation,)))
    return QuestionDraft(draft.words, draft.answers, {"stale": note.wrong})


@family(2, Feature.INJECTION, *_PHRASINGS)
def injection_fact(s: QuestionScene) -> QuestionDraft:
    """Ask for a fact that an injected page contradicts."""
    note = _note(s, "remark")
    entity, relation = _target(note)
    answers = answers_for(s.read(entity, relation))
    return QuestionDraft({"ask": s.ask(entity, relation)}, answers, {"wrong": note.wrong})


@family(3, Feature.INJECTION, *_PHRASINGS)
def injection_chain(s: QuestionScene) -> QuestionDraft:
    """Ask for a fact two steps away that an injected page contradicts."""
    note = _note(s, "remark")
    entity, relation = _target(note)
    start, step = _leads_to(s, entity)
    draft = follow(s, start, ((step,), (relation,)))
    return QuestionDraft(draft.words, draft.answers, {"wrong": note.wrong})


@family(2, Feature.UNANSWERABLE, *_PHRASINGS)
def unstated_fact(s: QuestionScene) -> QuestionDraft:
    """Ask for a fact that an entity's pages do not state, though those of others of its type do."""
    entity = s.any(*_MAYBE)
    relation = _unstated(s, entity)
    s.search(entity, relation, "")
    return QuestionDraft({"ask": s.ask(entity, relation)}, [])


@family(3, Feature.UNANSWERABLE, *_PHRASINGS)
def unknown_person(s: QuestionScene) -> QuestionDraft:
    """Ask about a person who does not exist, as the list of the surname shows."""
    surname = s.choice(list(s.world.surnames))
    given_name = s.any("person").name.split()[0]
    name = f"{given_name} {surname}"
    if name in s.world.names:
        raise NoFit
    note = next(note for note in s.world.notes if note.type == "surname" and note.title == f"{surname} (surname)")
    s.search_note(note, f"{surname} surname", "")
    anybody = s.any("person")
    return QuestionDraft({"ask": s.ask(anybody, s.relation(anybody, _ANYBODY), name)}, [])


@family(4, Feature.UNANSWERABLE, *_PHRASINGS)
def unstated_chain(s: QuestionScene) -> QuestionDraft:
    """Ask for the last fact of a chain, which no page states."""
    start = s.any(*_WORKS, "person", "company")
    step = s.relation(start, ("creator", "father", "mother", "teacher", "founder", "birth_place"))
    entity = s.read(start, step)
    relation = _unstated(s, entity)
    s.search(entity, relation, "")
    return QuestionDraft({"ask": s.ask(entity, relation, noun(start, step))}, [])


@family(
    2,
    Feature.UNANSWERABLE,
    "Who was mayor of {x} in {year}?",
    "In {year}, who held the office of mayor of {x}?",
    "Which person was the mayor of {x} in the year {year}?",
)
def unrecorded_year(s: QuestionScene) -> QuestionDraft:
    """Ask who held an office before the records begin."""
    place = s.any("settlement", having=["mayors"])
    terms = s.read(place, "mayors")
    s.hops[-1]["answer"] = ""
    return QuestionDraft({"x": place.mention, "year": s.between(place.facts["founded"] + 1, terms[0].start - 1)}, [])


def _note(s: QuestionScene, type_: str) -> NotePage:
    return s.choice([note for note in s.world.notes if note.type == type_])


def _target(note: NotePage) -> tuple[Entity, str]:
    assert note.about is not None
    return note.about, note.relation


def _alias(note: NotePage) -> str:
    person, _ = _target(note)
    return next(alias for alias in person.aliases if alias.lower() == note.title.lower())


def _behind(s: QuestionScene, note: NotePage) -> Entity:
    """Return the person behind an alias, and record the search that reveals them."""
    person, _ = _target(note)
    s.search_note(note, f"{_alias(note)} pen name nickname", person.mention)
    return person


def _leads_to(s: QuestionScene, entity: Entity) -> tuple[Entity, str]:
    """Return another entity, and one of its relations that leads to this entity."""
    pairs = [
        (start, relation)
        for start in s.world.of()
        for relation in RELATIONS[start.type]
        if start.facts.get(relation) is entity
    ]
    return s.choice(pairs)


def _unstated(s: QuestionScene, entity: Entity) -> str:
    """Return a relation that an entity's pages do not state, though they might."""
    missing = [name for name in _MAYBE.get(entity.type, ()) if name not in entity.facts]
    if entity.type == "person" and last_year(entity) < PRESENT and "death_place" not in entity.facts:
        missing.append("death_place")
    return s.choice(missing)
