"""Arguments that choose among names, the errors for invalid ones, and counts in English."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentgym.base.choices import count_of, explicit_choices, limits_from, one_of, settings_of, some_of
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


def test_a_task_source_excludes_other_choices():
    assert explicit_choices(None, {"difficulty": 2, "families": None}) == {"difficulty": 2}
    assert explicit_choices(object(), {"difficulty": None}) == {}
    assert "['difficulty']" in refusal(lambda: explicit_choices(object(), {"difficulty": 2}))


def test_limits_are_an_object_a_mapping_or_none():
    assert limits_from(Bounds, None) == {}
    assert limits_from(Bounds, {"rows": 3}) == {"rows": 3}
    assert limits_from(Bounds, Bounds(rows=4)) == {"seconds": 1.0, "rows": 4}
    rows: list[tuple[Any, str]] = [
        ({"row": 3}, "['row']; known: seconds, rows"),
        ([3], "must be a mapping"),
    ]
    assert not_refused(lambda limits: limits_from(Bounds, limits), rows) == []


def test_settings_are_copied_and_must_be_a_mapping_of_names():
    settings = {"size": 5}
    read = settings_of("config", settings)
    assert (read, settings_of("config", None)) == (settings, {})
    assert read is not settings
    wrong = [(value, "config must hold settings by name") for value in (5, "size=5", [("size", 5)], {1: 2}, True)]
    assert not_refused(lambda value: settings_of("config", value), wrong) == []


def test_counts_use_singular_and_plural():
    assert [count_of(number, "task") for number in (0, 1, 1204)] == ["0 tasks", "1 task", "1,204 tasks"]
    assert [count_of(number, "trajectory", "trajectories") for number in (1, 2)] == ["1 trajectory", "2 trajectories"]
