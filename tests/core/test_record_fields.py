"""Checks of the fields of a record, and the errors for wrong ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from agentgym.base.fields import (
    excerpt_of,
    is_count,
    is_counts,
    is_messages,
    is_number,
    is_numbers,
    is_object,
    is_text,
    list_of,
    object_of,
    or_null,
)
from agentgym.base.strict_json import json_kind
from tests.refusals import differing

MESSAGE = {"role": "user", "content": "hi"}
WITH_BLOCKS = [MESSAGE, {"role": "tool", "content": [{"type": "text"}]}]
VALUES: list[Any] = [
    None, True, 0, 1, -1, 0.0, 0.5, -0.5, math.nan, math.inf, "", "text", (), [], {}, [0, 1], [0, -1], [0.5, 1], [True],
    [math.nan], [1e308, 1e308], [1e308, 1e308, math.inf], ["a", ""], ["a", 1], {"a": 0}, {"a": -1}, {"a": 0, "b": -1},
    [{}], [MESSAGE], WITH_BLOCKS, [MESSAGE, {"role": "tool", "content": ["text"]}], [{"role": "tool", "content": []}],
    [MESSAGE, {"role": "tool", "content": ({},)}], [MESSAGE, {"role": "tool", "content": None}], [MESSAGE, "hi"],
    [MESSAGE, {"role": "tool"}], [MESSAGE, {"role": 1, "content": "hi"}], [MESSAGE, {"content": "hi"}],
]  # fmt: skip
RULES_OF_VALUES: list[tuple[Callable[[Any], bool], list[Any]]] = [
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
    (is_messages, [[], [MESSAGE], WITH_BLOCKS, [{"role": "tool", "content": []}]]),
]


def test_a_rule_accepts_its_values_and_no_others():
    accepted = [(passes, list(map(repr, right))) for passes, right in RULES_OF_VALUES]
    assert differing(lambda passes: [repr(value) for value in VALUES if passes(value)], accepted) == []


def test_types_have_their_json_names_and_values_at_most_60_characters():
    kinds = [(True, "a boolean"), ("", "a string"), (1, "a number"), (0.5, "a number"), ([], "a list")]
    kinds += [({}, "an object"), (None, "null"), ((), "tuple")]
    assert differing(json_kind, kinds) == []
    texts = [(None, "None"), (0.5, "0.5"), ("a", "'a'"), (["a"], "a list"), ("x" * 58, repr("x" * 58))]
    texts += [("x" * count, "'" + "x" * 59 + "…") for count in (59, 99)]
    assert differing(excerpt_of, texts) == []
