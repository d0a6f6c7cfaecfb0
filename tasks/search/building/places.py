"""Countries, their regions, and the settlements in them."""

from __future__ import annotations

from agentgym.tasks.search.building.world import Builder
from agentgym.tasks.search.entities import Count, Entity, EntityKind
from agentgym.tasks.search.names import TONGUES, NameShape, compound
from agentgym.tasks.search.vocabulary import COLOURS, FLOWERS, INDUSTRIES, LANDMARKS, TRADES


def add_places(b: Builder) -> None:
    """Add all places; a country's capital lies in its first region, a region's capital in the region."""
    for number in range(max(3, b.count(8))):
        country = _country(b, number)
        for _ in range(max(2, round(6 * min(1.0, b.scale**0.5)))):
            _region(b, country)
        first = next(region for region in b.of("region") if region.facts["country"] is country)
        country.facts["capital"] = first.facts["capital"]
    _add_twins(b)


def _country(b: Builder, number: int) -> Entity:
    tongue = TONGUES[number % len(TONGUES)]
    country = b.add(EntityKind.PLACE, "country", b.words.new(tongue, NameShape.OPEN))
    b.tongues[country.id] = tongue
    b.people[country.id] = []
    country.facts |= {
        "founded": b.between(1120, 1780),
        "area": Count(b.between(40_000, 900_000)),
        "currency": b.word(country).lower(),
        "language": b.word(country),
        "flower": b.pick(FLOWERS),
        "colours": b.pick(COLOURS),
        "export": b.pick(TRADES),
    }
    return country


def _region(b: Builder, country: Entity) -> None:
    region = b.add(EntityKind.PLACE, "region", b.word(country), country=country)
    region.facts |= {
        "area": Count(b.between(1_500, 38_000)),
        "peak": f"Mount {b.word(country)}",
        "peak_height": Count(b.between(900, 5200)),
        "industry": b.pick(INDUSTRIES),
        "joined": b.between(country.facts["founded"], 1800),
    }
    rivers = [b.word(country) for _ in range(2)]
    settlements = [_settlement(b, region, country, b.pick(rivers)) for _ in range(b.between(6, 13))]
    region.facts["settlements"] = settlements
    region.facts["capital"] = max(settlements, key=lambda place: place.facts["population"].value)
    region.facts["population"] = Count(b.between(2, 5) * sum(place.facts["population"].value for place in settlements))


def _settlement(b: Builder, region: Entity, country: Entity, river: str) -> Entity:
    founded = b.between(980, 1790)
    name = compound(b.rng, b.word(country), lambda: river)
    settlement = b.add(
        EntityKind.PLACE,
        "settlement",
        name,
        region=region,
        population=Count(int(10 ** (3.2 + 2.6 * b.rng.random())) + b.between(0, 99)),
        founded=founded,
        elevation=Count(b.between(4, 1400)),
        river=river if "-on-" in name or b.chance(0.8) else None,
        landmark=b.maybe(0.8, b.pick(LANDMARKS)),
        trade=b.pick(TRADES),
        market_day=b.pick(("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")),
    )
    if b.chance(0.25):
        settlement.facts |= {"former_name": b.word(country), "renamed": b.between(founded + 30, 1880)}
        settlement.aliases.append(settlement.facts["former_name"])
    return settlement


def _add_twins(b: Builder) -> None:
    settlements = b.of("settlement")
    twinned = b.sample(settlements, len(settlements) // 2 * 2 * 3 // 5 // 2 * 2)
    for settlement, twin in zip(twinned[::2], twinned[1::2], strict=True):
        if settlement.facts["region"] is not twin.facts["region"]:
            settlement.facts["twin"], twin.facts["twin"] = twin, settlement
