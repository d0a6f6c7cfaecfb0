"""People in six waves of births: newcomers and children of the previous wave, who marry within their country."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from agentgym.tasks.search.building.world import Builder, country_of, last_year
from agentgym.tasks.search.entities import Entity, EntityKind
from agentgym.tasks.search.names import NameShape
from agentgym.tasks.search.vocabulary import EARLIEST_BIRTH, HOBBIES, OCCUPATIONS, PRESENT

_WAVES = 6
_FIRST_BIRTH = 1760
_WAVE_YEARS = 30


@dataclass
class _Names:
    """The given names and surnames of a country."""

    men: list[str]
    women: list[str]
    surnames: list[str]


def add_people(b: Builder) -> None:
    """Add all people: a wave, its marriages, their children, the next wave."""
    people = b.count(1680)
    names = {country.id: _names(b, country, people) for country in b.of("country")}
    children: list[Entity] = []
    for wave in range(_WAVES):
        newcomers = max(4, people // _WAVES - len(children))
        born = [_newcomer(b, names, wave) for _ in range(newcomers)]
        couples = _marry(b, [*children, *born])
        children = [child for mother, father in couples for child in _children(b, names, mother, father)]
    _tell_namesakes_apart(b)
    _add_teachers(b)


def _names(b: Builder, country: Entity, people: int) -> _Names:
    countries = len(b.of("country"))
    name_count = 30 + people // countries // 10
    return _Names(
        men=[b.word(country, NameShape.CLOSED) for _ in range(name_count)],
        women=[b.word(country, NameShape.OPEN) for _ in range(name_count)],
        surnames=[b.word(country) for _ in range(12 + people // countries // 5)],
    )


def _newcomer(b: Builder, names: dict[str, _Names], wave: int) -> Entity:
    place = b.pick(b.of("settlement"))
    year = _FIRST_BIRTH + _WAVE_YEARS * wave + b.between(0, 25)
    return _person(b, names, place, year, surname=b.pick(names[country_of(place).id].surnames))


def _person(b: Builder, names: dict[str, _Names], place: Entity, year: int, surname: str) -> Entity:
    country = country_of(place)
    woman = b.chance(0.5)
    given_names = names[country.id].women if woman else names[country.id].men
    occupation = _occupation(b, year)
    person = b.add(
        EntityKind.PERSON,
        "person",
        _full_name(b, given_names, surname, occupation, year),
        birth_date=b.date(year),
        birth_place=place,
        occupation=occupation,
        gender="woman" if woman else "man",
        hobby=b.maybe(0.55, b.pick(HOBBIES)),
    )
    b.people[country.id].append(person)
    b.bearers.setdefault(person.name.split()[-1], []).append(person)
    death = year + b.between(46, 93)
    if death < PRESENT:
        home = b.pick(place.facts["region"].facts.get("settlements", [place]))
        person.facts["death_date"] = b.date(death)
        if b.chance(0.75):
            person.facts["death_place"] = home
    return person


def _occupation(b: Builder, year: int) -> str:
    fitting = [name for name in OCCUPATIONS if EARLIEST_BIRTH.get(name, 0) <= year]
    return b.rng.choices(fitting, [OCCUPATIONS[name] for name in fitting])[0]


def _full_name(b: Builder, given_names: list[str], surname: str, occupation: str, year: int) -> str:
    """Return a new name, or occasionally that of an older person with another occupation."""
    bearers = b.bearers.get(surname, [])
    if bearers and b.chance(0.25):
        other = b.pick(bearers)
        same = sum(person.name == other.name for person in bearers)
        older = other.facts["birth_date"].year < year - 20 and other.facts["occupation"] != occupation
        if same == 1 and older and other.name.split()[0] in given_names:
            return other.name
    used = {person.name for person in bearers}
    free = [name for name in given_names if f"{name} {surname}" not in used]
    if free:
        return f"{b.pick(free)} {surname}"
    second = b.word()
    return f"{b.pick(given_names)} {second} {surname}"


def _marry(b: Builder, people: list[Entity]) -> list[tuple[Entity, Entity]]:
    """Marry most people to somebody of their country and age; siblings remain unmarried or find another spouse."""
    couples: list[tuple[Entity, Entity]] = []
    waiting: dict[tuple[str, str], list[Entity]] = {}
    for person in sorted(people, key=lambda person: person.facts["birth_date"]):
        if b.chance(0.25):
            continue
        country, gender = country_of(person).id, person.facts["gender"]
        others = waiting.setdefault((country, "man" if gender == "woman" else "woman"), [])
        match = next((other for other in others if _may_marry(person, other)), None)
        if match is None:
            waiting.setdefault((country, gender), []).append(person)
            continue
        others.remove(match)
        mother, father = (person, match) if gender == "woman" else (match, person)
        mother.facts["spouse"], father.facts["spouse"] = father, mother
        year = max(mother.facts["birth_date"].year, father.facts["birth_date"].year) + b.between(20, 25)
        mother.facts["married"] = father.facts["married"] = year
        couples.append((mother, father))
    return couples


def _may_marry(person: Entity, other: Entity) -> bool:
    years = abs(person.facts["birth_date"].year - other.facts["birth_date"].year)
    return years <= 10 and person.name.split()[-1] != other.name.split()[-1] and person.name != other.name


def _children(b: Builder, names: dict[str, _Names], mother: Entity, father: Entity) -> list[Entity]:
    """Return the children of a couple, born while both lived and the mother was young enough."""
    if b.chance(0.3):
        return []
    married = mother.facts["married"]
    last = min(married + 14, mother.facts["birth_date"].year + 43, last_year(mother) - 1, last_year(father) - 1)
    years = [year for year in range(married + 1, last, 3) if year < PRESENT - 30 and b.chance(0.62)]
    children: list[Entity] = []
    for year in years:
        home = mother.facts["birth_place"].facts["region"].facts["settlements"]
        place = b.pick(home) if b.chance(0.7) else b.pick(b.of("settlement"))
        child = _person(b, names, place, year, surname=father.name.split()[-1])
        child.facts |= {"mother": mother, "father": father}
        children.append(child)
    if children:
        mother.facts["children"] = father.facts["children"] = children
    return children


def _tell_namesakes_apart(b: Builder) -> None:
    names = Counter(person.name for person in b.of("person"))
    for person in b.of("person"):
        if names[person.name] > 1:
            person.qualifier = person.facts["occupation"]


def _add_teachers(b: Builder) -> None:
    """Give some people a teacher: a much older person with the same occupation."""
    by_occupation: dict[str, list[Entity]] = {}
    for person in b.of("person"):
        by_occupation.setdefault(person.facts["occupation"], []).append(person)
    for person in b.of("person"):
        if not b.chance(0.4):
            continue
        born = person.facts["birth_date"].year
        for _ in range(8):
            teacher = b.pick(by_occupation[person.facts["occupation"]])
            age = born - teacher.facts["birth_date"].year
            if 15 <= age <= 45 and last_year(teacher) > born + 20 and teacher.name != person.name:
                person.facts["teacher"] = teacher
                break
