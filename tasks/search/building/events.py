"""Offices and elections, battles, expeditions and festivals."""

from __future__ import annotations

from agentgym.tasks.search.building.world import Builder, country_of, last_year
from agentgym.tasks.search.entities import Count, Entity, EntityKind, Term
from agentgym.tasks.search.vocabulary import BEASTS, INDUSTRIES, THEMES


def add_events(b: Builder) -> None:
    """Add all events, each with people who were alive and grown up at the time."""
    _add_offices(b)
    for _ in range(b.count(70)):
        _battle(b)
    for _ in range(b.count(60)):
        _expedition(b)
    for _ in range(b.count(70)):
        _festival(b)
    _add_nicknames(b)


def _add_offices(b: Builder) -> None:
    """Give countries presidents and some settlements mayors; nobody holds two such offices."""
    holder_ids: set[str] = set()
    for country in b.of("country"):
        presidents = b.terms(country, b.between(1800, 1830), 9, holder_ids)
        if presidents:
            country.facts["presidents"] = presidents
        places = [place for place in b.of("settlement") if country_of(place) is country]
        for place in b.sample(places, b.per_country(72)):
            mayors = b.terms(country, b.between(1805, 1860), b.between(4, 6), holder_ids)
            if len(mayors) >= 3:
                place.facts["mayors"] = mayors
                for term in mayors:
                    _election(b, place, country, term)


def _election(b: Builder, place: Entity, country: Entity, term: Term) -> None:
    loser = b.adult(term.start, country)
    votes = b.between(400, 42_000)
    b.add(
        EntityKind.EVENT,
        "election",
        f"{term.start} {place.name} mayoral election",
        place=place,
        year=term.start,
        winner=term.person,
        runner_up=loser if loser and loser.name != term.person.name else None,
        votes=Count(votes),
        issue=b.pick(
            ("the new bridge", "water rates", "street lighting", "the tram line", "school fees", "market dues")
        ),
    )


def _battle(b: Builder) -> None:
    year = b.between(1800, 1920)
    attacker, defender = b.sample(b.of("country"), 2)
    place = b.pick([place for place in b.of("settlement") if country_of(place) is defender])
    commander, opponent = b.adult(year, attacker), b.adult(year, defender)
    if commander is None or opponent is None or commander.name == opponent.name:
        return
    word = b.word(defender)
    day = b.date(year)
    # A person who died in that year may have died before the event.
    if last_year(commander) <= year or last_year(opponent) <= year:
        return
    b.add(
        EntityKind.EVENT,
        "battle",
        b.pick((f"Battle of {word}", f"Battle of {word} Heath", f"Siege of {word}", f"Battle of {word} Ford")),
        date=day,
        place=place,
        victor=attacker,
        loser=defender,
        commander=commander,
        opponent=opponent,
        casualties=Count(b.between(150, 26_000)),
        treaty=b.maybe(0.6, f"Treaty of {b.word(attacker)}"),
    )


def _expedition(b: Builder) -> None:
    year = b.between(1810, 1930)
    leader = b.adult(year, None, ("explorer",)) or b.adult(year)
    if leader is None or last_year(leader) <= year + 3:
        return
    country = country_of(leader)
    sponsors = [item for item in b.of("company") if item.facts["founded"] < year and country_of(item) is country]
    goal = b.word()
    b.add(
        EntityKind.EVENT,
        "expedition",
        b.pick((f"{goal} expedition", f"Great {goal} crossing", f"{goal} survey")),
        leader=leader,
        year=year,
        ended=year + b.between(1, 3),
        ship=f"the {b.word(country)}",
        goal=f"{goal} {b.pick(('Strait', 'Ice Shelf', 'Desert', 'Highlands', 'Islands', 'Delta'))}",
        sponsor=b.pick(sponsors) if sponsors and b.chance(0.7) else None,
        members=Count(b.between(9, 140)),
    )


def _festival(b: Builder) -> None:
    country = b.pick(b.of("country"))
    founder = b.adult(b.between(1820, 1960), country)
    if founder is None:
        return
    places = [place for place in b.of("settlement") if country_of(place) is country]
    theme = b.pick(THEMES)
    born = founder.facts["birth_date"].year
    b.add(
        EntityKind.EVENT,
        "festival",
        b.pick(("{} Festival", "{} Fair", "{} Days", "Feast of {}")).format(b.word(country)),
        place=b.pick(places),
        founded=b.between(born + 26, min(born + 58, last_year(founder), 1982)),
        founder=founder,
        theme=theme,
        month=b.pick(("February", "April", "May", "June", "July", "September", "October")),
        visitors=Count(b.between(800, 190_000)),
        patron=b.maybe(0.4, f"the guild of {b.pick(INDUSTRIES)}"),
    )


def _add_nicknames(b: Builder) -> None:
    """Give some generals, politicians and explorers a unique nickname."""
    used: set[str] = set()
    for person in b.of("person"):
        if person.facts["occupation"] in ("general", "politician", "explorer") and b.chance(0.3):
            place = b.pick(b.of("settlement"))
            nickname = f"the {b.pick(BEASTS)} of {place.name}"
            # A nickname that names a place of birth or death would answer questions by itself.
            if nickname not in used and place not in person.facts.values():
                used.add(nickname)
                person.facts["nickname"] = nickname
                person.aliases.append(nickname)
