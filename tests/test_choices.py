"""What cannot be chosen is refused by name, with what can be."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from agentgym.choices import given_apart_from, limits_from, one_of, settings_of, some_of
from agentgym.errors import UsageError


@dataclass(frozen=True)
class Bounds:
    seconds: float = 1.0
    rows: int = 10


def test_a_choice_is_returned_as_it_was_given():
    assert one_of("site", "mail", iter(("shop", "mail"))) == "mail"


def test_one_or_several_are_chosen_each_once_and_all_by_default():
    assert some_of("level", None, (1, 2)) == (1, 2)
    assert some_of("level", 2, (1, 2)) == (2,)
    assert some_of("site", "shop", ("shop", "mail")) == ("shop",)
    assert some_of("site", ["mail", "shop", "mail"], ("shop", "mail")) == ("mail", "shop")


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("bank", r"unknown site 'bank'\. Choose from: shop, mail$"),
        (["shop", "mall"], r"unknown site 'mall'; did you mean 'mail'\? Choose from: shop, mail$"),
        (3, r"unknown site 3\. Choose from: shop, mail$"),
        ([], "no site was given; choose from: shop, mail$"),
    ],
)
def test_what_is_unknown_is_named_with_what_is_known(wanted, told):
    with pytest.raises(UsageError, match=told):
        some_of("site", wanted, ("shop", "mail"))
    with pytest.raises(UsageError, match="site must be one of shop, mail, not 'bank'"):
        one_of("site", "bank", ("shop", "mail"))


def test_a_task_source_leaves_nothing_else_to_choose():
    assert given_apart_from(None, {"difficulty": 2, "families": None}) == {"difficulty": 2}
    assert given_apart_from(object(), {"difficulty": None}) == {}
    with pytest.raises(UsageError, match=r"\['difficulty'\] cannot be chosen too"):
        given_apart_from(object(), {"difficulty": 2})


def test_limits_are_given_whole_by_name_or_not_at_all():
    assert limits_from(Bounds, None) == {}
    assert limits_from(Bounds, {"rows": 3}) == {"rows": 3}
    assert limits_from(Bounds, Bounds(rows=4)) == {"seconds": 1.0, "rows": 4}
    with pytest.raises(UsageError, match=r"unknown limits \['row'\]; known: seconds, rows"):
        limits_from(Bounds, {"row": 3})
    with pytest.raises(UsageError, match="given by name"):
        limits_from(Bounds, [3])  # pyright: ignore[reportArgumentType]


def test_settings_are_a_copy_and_none_are_empty():
    given = {"size": 5}
    read = settings_of("config", given)
    assert (read, settings_of("config", None)) == (given, {})
    assert read is not given


@pytest.mark.parametrize("value", [5, "size=5", [("size", 5)], {1: 2}, True])
def test_what_are_no_settings_is_refused(value: object):
    with pytest.raises(UsageError, match="config must hold settings by name"):
        settings_of("config", value)
