"""Arguments that choose among names, the errors for invalid ones, and counts in English."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentgym.base.choices import limits_from, one_of, some_of
from tests.refusals import not_refused, refusal

SITES = ("shop", "mail")


@dataclass(frozen=True)
class Bounds:
    seconds: float = 1.0
    rows: int = 10


def test_choices_are_deduplicated_and_default_to_all():
    assert one_of("site", "mail", iter(SITES)) == "mail"
    assert some_of("level", None, (1, 2)) == (1, 2)
    assert some_of("level", 2, (1, 2)) == (2,)
    assert some_of("site", "shop", SITES) == ("shop",)
    assert some_of("site", ["mail", "shop", "mail"], SITES) == ("mail", "shop")


def test_an_unknown_choice_is_refused_with_the_valid_ones():
    rows: list[tuple[Any, str]] = [
        ("bank", "unknown site 'bank'. Choose from: shop, mail"),
        (["shop", "mall"], "unknown site 'mall'; did you mean 'mail'? Choose from: shop, mail"),
        (3, "unknown site 3. Choose from: shop, mail"),
        ([], "choose from: shop, mail"),
    ]
    assert not_refused(lambda choice: some_of("site", choice, SITES), rows) == []
    assert "one of shop, mail, not 'bank'" in refusal(lambda: one_of("site", "bank", SITES))


def test_limits_are_an_object_a_mapping_or_none():
    assert limits_from(Bounds, None) == {}
    assert limits_from(Bounds, {"rows": 3}) == {"rows": 3}
    assert limits_from(Bounds, Bounds(rows=4)) == {"seconds": 1.0, "rows": 4}
    rows: list[tuple[Any, str]] = [
        ({"row": 3}, "['row']; known: seconds, rows"),
        ([3], "must be a mapping"),
    ]
    assert not_refused(lambda limits: limits_from(Bounds, limits), rows) == []
