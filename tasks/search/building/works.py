"""Novels, films, paintings and songs, the works they are based on, and the prizes won by works and people."""

from __future__ import annotations

from itertools import pairwise

from agentgym.tasks.search.building.world import Builder, country_of, last_year
from agentgym.tasks.search.entities import Award, Count, Entity, EntityKind
from agentgym.tasks.search.vocabulary import FIELD_OF, GENRES, MUSEUM, PRESENT, TITLES, WORK_OF

_FIELD_OF_WORK = {"novel": "literature", "film": "film", "painting": "painting", "song": "music"}


_MOST_WINNERS = 10
"""Longest list of winners, so that passages stay short."""


def add_works(b: Builder) -> None:
    """Add all works, in the order of their makers, then sequels, film versions and prizes."""
    houses = {
        industry: [company for company in b.of("company") if company.facts["industry"] == industry]
        for industry in ("publishing", "film making")
    }
    for person in b.of("person"):
        type_ = WORK_OF.get(person.facts["occupation"])
        if type_:
            _works_of(b, person, type_, houses)
    _base_films_on_novels(b)
    _award_prizes(b)
    _add_pen_names(b)


def _works_of(b: Builder, person: Entity, type_: str, houses: dict[str, list[Entity]]) -> None:
    born = person.facts["birth_date"].year
    last = min(born + 75, last_year(person), PRESENT - 1)
    number = b.pick((0, 1, 1, 2, 2, 3, 4, 5))
    years = sorted(b.sample(range(max(born + 22, 1902 if type_ == "film" else 0), last), number))
    works = [_work(b, person, type_, year, houses) for year in years]
    for earlier, later in pairwise(works):
        if type_ in ("novel", "film") and b.chance(0.3):
            later.facts["sequel_to"] = earlier
    if works:
        # Listed by title, so that the earliest work has to be looked up.
        person.facts["works"] = sorted(works, key=lambda work: work.name)


def _work(b: Builder, person: Entity, type_: str, year: int, houses: dict[str, list[Entity]]) -> Entity:
    country = country_of(person)
    title = b.pick(TITLES).format(w=b.word(country))
    work = b.add(EntityKind.WORK, type_, title, creator=person, year=year, genre=b.pick(GENRES[type_]))
    work.facts |= _making(b, type_, year, houses)
    place = b.pick(b.of("settlement"))
    if b.chance(0.7) and place.name not in title:
        work.facts["setting"] = place
    if b.chance(0.35):
        friend = b.adult(year, country)
        if friend and friend.name != person.name:
            work.facts["dedicated_to"] = friend
    return work


def _making(b: Builder, type_: str, year: int, houses: dict[str, list[Entity]]) -> dict[str, object]:
    if type_ in ("novel", "film"):
        industry = "publishing" if type_ == "novel" else "film making"
        older = [house for house in houses[industry] if house.facts["founded"] <= year]
        length = {"pages": Count(b.between(90, 980))} if type_ == "novel" else {"minutes": Count(b.between(58, 205))}
        hero = {"hero": f"{b.word()} {b.word()}"} if b.chance(0.6) else {}
        return {**({"house": b.pick(older)} if older else {}), **length, **hero}
    if type_ == "painting":
        return {"museum": f"{b.word()} {b.pick(MUSEUM)}", "height": Count(b.between(25, 390))}
    return {"performed_in": b.pick(b.of("settlement")), "verses": Count(b.between(2, 19))}


def _base_films_on_novels(b: Builder) -> None:
    """Base some films on a novel published before; half of those bear its title."""
    novels = b.of("novel")
    filmed: set[str] = set()
    for film in b.of("film"):
        novel = b.pick(novels) if novels and b.chance(0.45) else None
        if novel is None or novel.id in filmed or novel.facts["year"] >= film.facts["year"]:
            continue
        filmed.add(novel.id)
        film.facts["based_on"] = novel
        if b.chance(0.5):
            film.name, film.qualifier, novel.qualifier = novel.name, "film", "novel"


def _award_prizes(b: Builder) -> None:
    """Give every prize to at most one winner a year; no person or work wins two."""
    prizes: dict[str, list[Entity]] = {}
    awards: dict[str, dict[int, Entity]] = {}
    for prize in b.of("prize"):
        prizes.setdefault(prize.facts["field"], []).append(prize)
        awards[prize.id] = {}
    for entity in b.of("novel", "film", "painting", "song", "person"):
        field = _FIELD_OF_WORK.get(entity.type) or FIELD_OF.get(entity.facts["occupation"], "")
        prize = b.pick(prizes[field]) if b.chance(0.35) and field in prizes else None
        if prize is None or (entity.kind is EntityKind.PERSON) != (
            field in ("science", "engineering", "medicine", "exploration")
        ):
            continue
        year = _prize_year(b, entity)
        winners = awards[prize.id]
        if prize.facts["founded"] <= year < PRESENT and year not in winners and len(winners) < _MOST_WINNERS:
            winners[year] = entity
            entity.facts |= {"prize": prize, "prize_year": year}
    for prize in b.of("prize"):
        if awards[prize.id]:
            prize.facts["winners"] = [Award(winner, year) for year, winner in sorted(awards[prize.id].items())]


def _prize_year(b: Builder, entity: Entity) -> int:
    if entity.kind is EntityKind.WORK:
        return entity.facts["year"] + b.between(0, 2)
    born = entity.facts["birth_date"].year
    return b.between(born + 28, min(born + 70, last_year(entity)))


def _add_pen_names(b: Builder) -> None:
    """Give some writers and composers a pen name, and one work whose pages name its maker by the pen name only."""
    for person in b.of("person"):
        works = person.facts.get("works", [])
        if person.facts["occupation"] in ("novelist", "composer") and works and b.chance(0.3):
            country = country_of(person)
            person.facts["pen_name"] = f"{b.word(country)} {b.word(country)}"
            person.aliases.append(person.facts["pen_name"])
            work = b.pick(works)
            del work.facts["creator"]
            work.facts["credited"] = person.facts["pen_name"]
