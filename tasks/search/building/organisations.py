"""Universities, companies, clubs and prizes, and their ties to people: schools, employers, offices."""

from __future__ import annotations

from agentgym.tasks.search.building.world import Builder, country_of, last_year
from agentgym.tasks.search.entities import Count, Entity, EntityKind
from agentgym.tasks.search.vocabulary import COLOURS, FIELDS, INDUSTRIES, PRESENT, SPORTS


def add_organisations(b: Builder) -> None:
    """Add all organisations, then their students, employees and heads."""
    for country in b.of("country"):
        places = [place for place in b.of("settlement") if country_of(place) is country]
        for _ in range(b.per_country(40)):
            _university(b, b.pick(places), country)
        for _ in range(b.per_country(120)):
            _company(b, b.pick(places), country)
        for _ in range(b.per_country(56)):
            _club(b, b.pick(places), country)
    for number in range(max(len(FIELDS), b.count(28))):
        _prize(b, FIELDS[number % len(FIELDS)])
    _add_predecessors(b)
    _add_careers(b)


def _university(b: Builder, place: Entity, country: Entity) -> None:
    word = b.word(country)
    b.add(
        EntityKind.ORGANISATION,
        "university",
        b.pick((f"{word} University", f"University of {word}", f"{word} Academy of Sciences")),
        place=place,
        founded=b.between(1390, 1760),
        students=Count(b.between(900, 38_000)),
        library=b.maybe(0.7, f"{b.word(country)} Library"),
        rectors=b.terms(country, b.between(1815, 1840), b.between(3, 6), set()) or None,
    )


def _company(b: Builder, place: Entity, country: Entity) -> None:
    founder = _founder(b, country, 1815, 1950)
    if founder is None:
        return
    word, year = b.word(country), _active_year(b, founder)
    name = b.pick((f"{word} Works", f"{word} & Sons", f"{word} Brothers", f"{word} Company", f"House of {word}"))
    b.add(
        EntityKind.ORGANISATION,
        "company",
        name,
        founder=founder,
        founded=year,
        place=place,
        industry=b.pick((*INDUSTRIES, "publishing", "publishing", "publishing", "film making", "film making")),
        employees=Count(b.between(25, 24_000)),
        directors=b.terms(country, year + b.between(8, 20), b.between(2, 4), {founder.id}) or None,
    )


def _club(b: Builder, place: Entity, country: Entity) -> None:
    founder = _founder(b, country, 1850, 1960)
    if founder is None:
        return
    word = b.word(country)
    b.add(
        EntityKind.ORGANISATION,
        "club",
        b.pick((f"{word} Rovers", f"{word} Athletic", f"{word} United", f"Sporting {word}", f"{word} Wanderers")),
        founder=founder,
        founded=_active_year(b, founder),
        place=place,
        sport=b.pick(SPORTS),
        colours=b.pick(COLOURS),
        ground=b.maybe(0.8, f"{b.word(country)} Field"),
    )


def _prize(b: Builder, field: str) -> None:
    country = b.pick(b.of("country"))
    founder = _founder(b, country, 1820, 1930)
    b.add(
        EntityKind.ORGANISATION,
        "prize",
        b.pick(("{} Prize", "{} Medal", "{} Award")).format(b.word(country)),
        field=field,
        founder=founder,
        founded=_active_year(b, founder) if founder else b.between(1840, 1900),
        worth=Count(100 * b.between(5, 900)),
    )


def _founder(b: Builder, country: Entity, first: int, last: int) -> Entity | None:
    """Return a person who was an adult at some time between two years."""
    return b.adult(b.between(first, last), country)


def _active_year(b: Builder, person: Entity) -> int:
    born = person.facts["birth_date"].year
    return b.between(born + 26, min(born + 58, last_year(person), PRESENT - 8))


def _add_predecessors(b: Builder) -> None:
    """Let some companies succeed an older one in their industry; no company has two successors."""
    by_industry: dict[str, list[Entity]] = {}
    for company in b.of("company"):
        by_industry.setdefault(company.facts["industry"], []).append(company)
    for companies in by_industry.values():
        companies.sort(key=lambda company: company.facts["founded"])
        for older, newer in zip(companies[::2], companies[1::2], strict=False):
            if older.facts["founded"] < newer.facts["founded"]:
                newer.facts["predecessor"] = older


def _add_careers(b: Builder) -> None:
    universities: dict[str, list[Entity]] = {}
    for university in b.of("university"):
        universities.setdefault(country_of(university).id, []).append(university)
    employers: dict[str, list[Entity]] = {}
    for company in b.of("company"):
        employers.setdefault(country_of(company).id, []).append(company)
    heads = {company.facts["founder"] for company in b.of("company")}
    heads |= {term.person for company in b.of("company") for term in company.facts.get("directors", ())}
    for person in b.of("person"):
        country = country_of(person).id
        if b.chance(0.5):
            person.facts["university"] = b.pick(universities[country])
        company = b.pick(employers[country]) if b.chance(0.4) and country in employers else None
        if company and person not in heads and _overlap(person, company):
            person.facts["employer"] = company


def _overlap(person: Entity, company: Entity) -> bool:
    return person.facts["birth_date"].year + 50 > company.facts["founded"] < last_year(person) - 8
