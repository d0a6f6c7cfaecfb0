"""Comparison of results with expected values: Python's `==`, with a tolerance for fractions."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.base.errors import TaskError, ToolError
from agentgym.core.task import Task
from agentgym.envs.code.plain import dumps, loads
from agentgym.envs.code.verdict import answer_decision, matches, read_cases, read_literal, share

EXACT = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.just(10**400), st.sampled_from(["", "a", b"a"]), st.just(2.0)
)
KEYS = st.one_of(EXACT, st.tuples(EXACT), st.frozensets(EXACT, max_size=2))
FLOATS = st.sampled_from([0.0, -0.0, 0.1, 0.3, 1.5, -7.25, 1e300, math.inf, -math.inf])
INF, NAN = math.inf, math.nan


def nested(leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.sets(keys, max_size=3),
            st.dictionaries(keys, inner, max_size=3),
        ),
        max_leaves=8,
    )


def rounded(value: Any, by: Callable[[float], float]) -> Any:
    """Copy a value with every fractional number in it a little off."""
    if isinstance(value, float):
        return by(value)
    if isinstance(value, list | tuple | set | frozenset):
        return type(value)(rounded(item, by) for item in value)
    if isinstance(value, dict):
        return {rounded(key, by): rounded(item, by) for key, item in value.items()}
    return value


def by_definition(value: Any, expected: Any) -> bool:
    """Compare by trying every order of sets and dicts."""
    if isinstance(expected, float) and isinstance(value, int | float):
        floor = 0.0 if value and expected else 1e-9
        return value == expected or math.isclose(value, expected, rel_tol=1e-9, abs_tol=floor)
    if isinstance(expected, list | tuple):
        alike = type(value) is type(expected) and len(value) == len(expected)
        return alike and all(map(by_definition, value, expected))
    for kinds in ((set, frozenset), (dict,)):
        if isinstance(expected, kinds):
            if not isinstance(value, kinds) or len(value) != len(expected):
                return False
            mine = list(value.items()) if isinstance(value, dict) else list(value)
            theirs = list(expected.items()) if isinstance(expected, dict) else list(expected)
            return any(all(map(by_definition, order, theirs)) for order in permutations(mine))
    return value == expected


@given(nested(EXACT, KEYS), nested(EXACT, KEYS))
def test_values_without_fractions_match_if_equal_in_python(value: Any, expected: Any):
    assert matches(value, expected) == (value == expected)
    assert matches(loads(dumps(value)), value)


@given(nested(st.one_of(EXACT, FLOATS), st.one_of(KEYS, FLOATS, st.tuples(FLOATS, EXACT))))
def test_rounding_errors_are_tolerated_everywhere(expected: Any):
    assert matches(rounded(expected, lambda number: number * (1 + 1e-12)), expected)
    assert matches(rounded(expected, lambda number: number - 1e-13), expected)


FRACTIONAL = nested(st.one_of(st.sampled_from(["a", "b", 1, 2]), FLOATS), st.one_of(st.just("k"), FLOATS))


@given(FRACTIONAL, FRACTIONAL)
def test_sets_and_dicts_of_fractions_match_if_some_order_pairs_them(value: Any, expected: Any):
    off = rounded(value, lambda number: number * (1 - 1e-12))
    assert matches(off, expected) == by_definition(off, expected)


SAME: list[tuple[Any, Any]] = [
    # Numbers and truth values are equal as in Python.
    (3, 3.0), (3.0, 3), (1, True), (False, 0), ([1, 0.0], [True, False]), ({True: "a"}, {1: "a"}), (-0.0, 0),
    # Fractions may differ by a rounding error, and next to nothing is nothing.
    (0.1 + 0.2, 0.3), (1.5 * (1 + 0.9e-9), 1.5), (1.5 * (1 - 0.9e-9), 1.5), (0.9e-9, 0.0), (INF, INF), (NAN, NAN),
    # Whole numbers are exact unless a fraction is expected.
    (3, 3.0000000001), (0, 1e-10), (10**400, 10**400), (Decimal("0.5"), 0.5), (Fraction(1, 3), 1 / 3), (Decimal(7), 7),
    # Complex numbers agree in both parts.
    (1 + 1e-12j, 1.0), (1 + 2j, 1 + 2j), (1 + 2j, (1 + 1e-10) + 2j), (1 + 2j, 1 + (2 + 1e-10) * 1j), (1.5, 1.5 + 0j),
    (1.5 + 1e-10j, 1.5),
    # Containers agree item by item.
    ([1, (2, {"a": 1.0})], [1, (2, {"a": 1})]), ({0.1 + 0.2, 2}, {2, 0.3}), ({(0.1 + 0.2, "x")}, {(0.3, "x")}),
    ({0.1 + 0.2: [0.1 + 0.2]}, {0.3: [0.3]}), ({2: "a", 1: "b"}, {1: "b", 2: "a"}), (frozenset({1}), {1}),
    ({1.5, 2.5}, {1.5 + 1e-10, 2.5}), ({"a", (1, 0.1 + 0.2)}, {"a", (1, 0.3)}), ([{1: (2.0, {3})}], [{1: (2, {3.0})}]),
]  # fmt: skip
OTHER: list[tuple[Any, Any]] = [
    (1.5 * (1 + 1.2e-9), 1.5), (1.5e8 + 100, 1.5e8 + 0.5), (2e-9, 0.0), (-1.5, 1.5), (-INF, INF), (1e300, INF),
    (NAN, 1.0), (1.0, NAN),
    (2, True), ("True", True), ("3", 3), (None, 0), (b"a", "a"), (Decimal("0.5"), 0.4),
    (3.1, 3), (3, 3.1), (3.0000000001, 3), (3.0000001, 3), (5, INF), (10**400, INF), (INF, 10**400),
    (10**400, 1.5), (10**400, 1e300), (10**400 + 1, 10**400), (10**400, 10**400 + 1),
    (1 + 2j, 1.5 + 2j), (1 + 2j, 1 + 2.5j), (1.5 + 1j, 1.5), (2j, "2j"),
    # Keys that are close do not hide wrong values, and one close item does not stand for two.
    ({1.5000000000001: "wrong"}, {1.5: "right"}), ({1.5000000000001: "b", 2.5000000000001: "a"}, {1.5: "a", 2.5: "b"}),
    ([{0.30000000000000004: [1]}], [{0.3: [2]}]), ({1.5, 1.5000000000001}, {1.5, 2.5}), ({1.5, 2.5}, {1.5, 3.5}),
    ({1.5}, {1.5, 2.5}), ((1, 2), [1, 2]), ([1, 2], [1, 2, 3]), ({1: 2}, {1: 3}), ({1: 2}, {2: 2}), ({1, 2}, {1, 3}),
    ({"a", "b"}, {"a", "c"}), ({1: 2, 3: 4}, {1: 2}), ({}, set()), ([], ()), ("ab", ["a", "b"]),
    ([{1: (2.0, {3})}], [{1: (2, {4})}]), (deque([1]), [1]), (range(2), [0, 1]),
]  # fmt: skip


def test_results_match_only_equal_values():
    assert [row for row in SAME if not matches(loads(dumps(row[0])), row[1])] == []
    assert [row for row in OTHER if matches(loads(dumps(row[0])), row[1])] == []
    assert not matches(loads(dumps(iter([1]))), [1])


def test_large_sets_of_fractions_are_compared_in_time():
    numbers = {number / 7 for number in range(3000)}
    assert matches(set(numbers), numbers)
    assert not matches({number * (1 + 1e-3) for number in numbers}, numbers)
    numbers = {i + 0.5 for i in range(600)}
    assert matches(set(numbers), numbers)
    assert not matches({*numbers, 700.5} - {0.5}, numbers)


ANSWERS: list[tuple[str, Any, bool]] = [
    ("42", 42, True), (" 'a b' ", "a b", True), ("a b", "a b", True), ("a b", " a b ", True), ("1, 2", [1, 2], True),
    ("true", True, True), ("false", False, True), ("true", False, False), ("None", None, True), ("null", None, True),
    ("null", 0, False), ('{"a": [true, null]}', {"a": [True, None]}, True), ("0x2A", 42, True),
    ("[3.0]", [3], True), ("'5'", 5, False), ("5", "5", True),
    # Lists and tuples are the same at every depth.
    ("(1, 2)", [1, 2], True), ("[[1], 2]", ([1], 2), True), ("[[1], 3]", ([1], 2), False),
    ("{1: [2]}", {1: (2,)}, True), ("{(1, 2)}", {(1, 2)}, True), ("[" + "[], " * 100 + "]", [[]] * 100, True),
    # Truth values do not equal numbers.
    ("1", True, False), ("True", 1, False), ("[1, 0]", [True, False], False), ("{1}", {True}, False),
    ("{0: 'a'}", {False: "a"}, False),
    *((text, 42, False) for text in ("41", "forty-three", "42 apples", "[42]", "(" * 5000, "__import__('os')", "\x00",
                                     "\ud800")),
]  # fmt: skip


def test_written_answers_match_in_several_notations():
    assert [row for row in ANSWERS if answer_decision(row[0], row[1]).equal is not row[2]] == []


def test_the_depth_and_length_of_written_answers_are_limited():
    for depth, is_read in ((60, True), (61, False)):
        expected: Any = []
        for _ in range(depth - 1):
            expected = [expected]
        assert answer_decision("[" * depth + "]" * depth, expected).equal is is_read
    assert answer_decision("x" * 20_000, "x" * 20_000)
    with pytest.raises(ToolError, match="20001 characters"):
        answer_decision("x" * 20_001, "x" * 20_001)


def test_a_task_with_a_value_that_is_not_a_literal_is_refused():
    for text in ("1 +", "open('x')", "(" * 10_000, "{[]: 1}"):
        with pytest.raises(TaskError, match=r"^gold of task 't' is .*not a Python literal"):
            read_literal(text, "gold of task 't'")
    sound = {"args": "(3,)", "expect": "6"}
    [case] = read_cases(Task("t", "train", "?"), "gold", [sound])
    assert case.expected == 6
    with pytest.raises(TaskError, match="args of case 2 of gold of task 't'"):
        read_cases(Task("t", "train", "?"), "gold", [sound, {"args": "oops(", "expect": "6"}])


def test_without_tests_the_share_of_passed_ones_is_the_outcome():
    assert [share([True, False, False, False], False), share([], True), share([], False)] == [0.25, 1.0, 0.0]
    assert share([False], True) == 0.0
