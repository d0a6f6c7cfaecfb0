"""What the fields of a record may hold, exactly, and how a wrong one is told."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from agentgym.errors import UsageError
from agentgym.records.fields import (
    Rules,
    check_fields,
    is_count,
    is_counts,
    is_messages,
    is_number,
    is_numbers,
    is_object,
    is_text,
    kind_of,
    list_of,
    object_of,
    or_null,
    required_fields,
    shown,
)

MESSAGE = {"role": "user", "content": "hi"}
WITH_BLOCKS = [MESSAGE, {"role": "tool", "content": [{"type": "text"}]}]
VALUES: list[Any] = [
    None,
    True,
    0,
    1,
    -1,
    0.0,
    0.5,
    -0.5,
    math.nan,
    math.inf,
    "",
    "text",
    (),
    [],
    {},
    [0, 1],
    [0, -1],
    [0.5, 1],
    [True],
    [math.nan],
    [1e308, 1e308],
    [1e308, 1e308, math.inf],
    ["a", ""],
    ["a", 1],
    {"a": 0},
    {"a": -1},
    {"a": 0, "b": -1},
    [{}],
    [MESSAGE],
    WITH_BLOCKS,
    [MESSAGE, {"role": "tool", "content": ["text"]}],
    [MESSAGE, {"role": "tool", "content": ({},)}],
    [MESSAGE, {"role": "tool", "content": None}],
    [MESSAGE, {"role": "tool"}],
    [MESSAGE, {"role": 1, "content": "hi"}],
    [MESSAGE, {"content": "hi"}],
    [MESSAGE, "hi"],
    [{"role": "tool", "content": []}],
]


@pytest.mark.parametrize(
    ("passes", "right"),
    [
        (is_text, ["", "text"]),
        (is_count, [0, 1]),
        (is_number, [0, 1, -1, 0.0, 0.5, -0.5]),
        (is_object, [{}, {"a": 0}, {"a": -1}, {"a": 0, "b": -1}]),
        (or_null(is_text), [None, "", "text"]),
        (list_of(str), [[], ["a", ""]]),
        (list_of(int), [[], [0, 1], [0, -1]]),
        (object_of(is_count), [{}, {"a": 0}]),
        (is_counts, [[], [0, 1]]),
        (is_numbers, [[], [0, 1], [0, -1], [0.5, 1], [1e308, 1e308]]),
        (
            is_messages,
            [[], [MESSAGE], WITH_BLOCKS, [{"role": "tool", "content": []}]],
        ),
    ],
)  # fmt: skip
def test_a_rule_takes_these_values_and_no_others(passes: Callable[[Any], bool], right: list[Any]):
    assert [repr(value) for value in VALUES if passes(value)] == [repr(value) for value in right]


@dataclass
class Record:
    """Has every kind of field."""

    name: str
    size: int
    more: int = 0
    rest: list[int] = field(default_factory=list)


RULES: Rules = {
    "name": (is_text, "text"),
    "size": (is_number, "a number"),
    "more": (is_count, "a whole number"),
    "rest": (is_counts, "whole numbers"),
}


def test_fields_without_a_default_are_required():
    assert required_fields(Record) == {"name", "size"}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ([], "a record is a JSON object, not a list"),
        (None, "a record is a JSON object, not null"),
        ({}, "a record needs the field 'name'"),
        ({"name": "a", "more": 1}, "a record needs the field 'size'"),
        ({"name": "a", "size": 1, "sise": 2}, "a record has no field 'sise'; was it written by a newer release?"),
        ({"name": "a", "size": 10**400}, "field 'size' of a record must be a number, not 1" + "0" * 59 + "…"),
        ({"name": 1, "size": 1}, "field 'name' of a record must be text, not 1"),
        ({"name": "a", "size": 1, "more": -1}, "field 'more' of a record must be a whole number, not -1"),
        ({"name": "a", "size": 1, "rest": [-1]}, "field 'rest' of a record must be whole numbers, not a list"),
    ],
)
def test_the_first_wrong_field_is_named(data: Any, problem: str):
    with pytest.raises(UsageError) as refused:
        check_fields(data, RULES, required_fields(Record), "a record")
    assert str(refused.value) == problem


def test_right_fields_pass_in_any_order_and_with_or_without_those_that_have_a_default():
    check_fields({"size": 1, "name": "a"}, RULES, required_fields(Record), "a record")
    check_fields({"name": "a", "rest": [], "more": 2, "size": 1.5}, RULES, required_fields(Record), "a record")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, "a boolean"),
        ("", "a string"),
        (1, "a number"),
        (0.5, "a number"),
        ([], "a list"),
        ({}, "an object"),
        (None, "null"),
        ((), "tuple"),
    ],
)
def test_types_are_called_as_json_calls_them(value: Any, kind: str):
    assert kind_of(value) == kind


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (0.5, "0.5"),
        ("a", "'a'"),
        (["a"], "a list"),
        ("x" * 58, repr("x" * 58)),
        ("x" * 59, "'" + "x" * 59 + "…"),
        ("x" * 99, "'" + "x" * 59 + "…"),
    ],
)
def test_a_value_is_shown_in_at_most_60_characters(value: Any, text: str):
    assert shown(value) == text
