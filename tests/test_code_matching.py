"""When a result of code counts as the expected value: Python's own `==`, but for rounding; and what may travel."""

from __future__ import annotations

import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.envs.code.matching import answer_matches, matches
from agentgym.envs.code.plain import NotPlain, dumps, loads
from agentgym.errors import ToolError

EXACT = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.just(10**400), st.sampled_from(["", "a", b"a"]), st.just(2.0)
)
KEYS = st.one_of(EXACT, st.tuples(EXACT), st.frozensets(EXACT, max_size=2))
FLOATS = st.sampled_from([0.0, -0.0, 0.1, 0.3, 1.5, -7.25, 1e300, math.inf, -math.inf])


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
    """The same question, answered by trying every order of sets and dicts."""
    if isinstance(expected, float) and isinstance(value, int | float):
        return value == expected or math.isclose(value, expected, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(expected, list | tuple):
        return (
            type(value) is type(expected) and len(value) == len(expected) and all(map(by_definition, value, expected))
        )
    for kinds in ((set, frozenset), (dict,)):
        if isinstance(expected, kinds):
            if not isinstance(value, kinds) or len(value) != len(expected):
                return False
            mine = list(value.items()) if isinstance(value, dict) else list(value)
            theirs = list(expected.items()) if isinstance(expected, dict) else list(expected)
            return any(all(map(by_definition, order, theirs)) for order in permutations(mine))
    return value == expected


# What counts as equal.


@given(nested(EXACT, KEYS), nested(EXACT, KEYS))
def test_without_fractions_values_match_exactly_where_python_says_equal(value: Any, expected: Any):
    assert matches(value, expected) == (value == expected)
    assert matches(loads(dumps(value)), value)


@given(nested(st.one_of(EXACT, FLOATS), st.one_of(KEYS, FLOATS, st.tuples(FLOATS, EXACT))))
def test_rounding_matters_nowhere(expected: Any):
    assert matches(rounded(expected, lambda number: number * (1 + 1e-12)), expected)
    assert matches(rounded(expected, lambda number: number - 1e-13), expected)


FRACTIONAL = nested(st.one_of(st.sampled_from(["a", "b", 1, 2]), FLOATS), st.one_of(st.just("k"), FLOATS))


@given(FRACTIONAL, FRACTIONAL)
def test_fractional_values_match_where_some_order_pairs_them_off(value: Any, expected: Any):
    off = rounded(value, lambda number: number * (1 - 1e-12))
    assert matches(off, expected) == by_definition(off, expected)


@given(nested(st.one_of(EXACT, FLOATS), FLOATS), st.data())
def test_one_other_leaf_is_never_equal(expected: Any, data: st.DataObject):
    def changed(value: Any) -> Any:
        if isinstance(value, dict) and value:
            key = data.draw(st.sampled_from(sorted(value)))
            return {**value, key: changed(value[key])}
        if isinstance(value, list | tuple) and value:
            place = data.draw(st.integers(0, len(value) - 1))
            return type(value)([*value[:place], changed(value[place]), *value[place + 1 :]])
        return "something else"

    other = rounded(changed(expected), lambda number: number * (1 + 1e-12))
    assert not matches(other, expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        (3.0, 3),
        (1, True),
        (False, 0),
        ([1, 0.0], [True, False]),
        ({True: "a"}, {1: "a"}),
        (-0.0, 0),
        (0.1 + 0.2, 0.3),
        (float("nan"), float("nan")),
        ([1, (2, {"a": 1.0})], [1, (2, {"a": 1})]),
        ({0.1 + 0.2, 2}, {2, 0.3}),
        ({(0.1 + 0.2, "x")}, {(0.3, "x")}),
        ({0.1 + 0.2: [0.1 + 0.2]}, {0.3: [0.3]}),
        ({2: "a", 1: "b"}, {1: "b", 2: "a"}),
        (frozenset({1}), {1}),
        (10**400, 10**400),
        (Decimal("0.5"), 0.5),
        (Fraction(1, 3), 1 / 3),
        (Decimal(7), 7),
        (1 + 1e-12j, 1.0),
    ],
)
def test_values_that_mean_the_same_are_equal(value: Any, expected: Any):
    assert matches(loads(dumps(value)), expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({1.5000000000001: "wrong"}, {1.5: "right"}),
        ({1.5000000000001: "b", 2.5000000000001: "a"}, {1.5: "a", 2.5: "b"}),
        ([{0.30000000000000004: [1]}], [{0.3: [2]}]),
        ({1.5, 1.5000000000001}, {1.5, 2.5}),
        (2, True),
        ("True", True),
        (3.1, 3),
        (3, 3.1),
        (3.0000000001, 3),
        ("3", 3),
        ((1, 2), [1, 2]),
        ([1, 2], [1, 2, 3]),
        ({1: 2}, {1: 3}),
        ({1: 2}, {2: 2}),
        ({1, 2}, {1, 3}),
        (None, 0),
        (10**400, 1.5),
        (10**400, 1e300),
        (10**400 + 1, 10**400),
        (b"a", "a"),
        (float("nan"), 1.0),
        (1.0, float("nan")),
        (Decimal("0.5"), 0.4),
        (deque([1]), [1]),
        (range(2), [0, 1]),
        (iter([1]), [1]),
    ],
)
def test_values_that_differ_are_not_equal(value: Any, expected: Any):
    assert not matches(loads(dumps(value)), expected)


def test_large_sets_of_fractions_end_in_time():
    many = {number / 7 for number in range(3000)}
    assert matches(set(many), many)
    assert not matches({number * (1 + 1e-3) for number in many}, many)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("42", 42), (" 'a b' ", "a b"), ("a b", "a b"), ("1, 2", [1, 2]), ("true", True), ("[3.0]", [3]), ("None", None)],
)
def test_a_written_answer_needs_no_perfect_form(answer: str, expected: Any):
    assert answer_matches(answer, expected)


@pytest.mark.parametrize(
    "answer", ["41", "forty-two", "42 apples", "[42]", "(" * 5000, "__import__('os')", "\x00", "\ud800"]
)
def test_a_wrong_answer_is_wrong_whatever_it_looks_like(answer: str):
    assert not answer_matches(answer, 42)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("1", True), ("True", 1), ("[1, 0]", [True, False]), ("{1}", {True}), ("{0: 'a'}", {False: "a"})],
)
def test_a_written_truth_value_is_no_number(answer: str, expected: Any):
    assert not answer_matches(answer, expected)


def test_an_endless_answer_is_refused():
    with pytest.raises(ToolError, match="characters"):
        answer_matches("9" * 30_000, 9)


# What may leave a sandbox.


class Level(IntEnum):
    LOW = 3


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -7,
        2**80,
        1.5,
        "é\ud800",
        b"\x00",
        bytearray(b"\x01"),
        [1, (2,)],
        {(1, 2): {3}},
        frozenset("a"),
        range(3),
        2j,
        Decimal("-1.50"),
        Fraction(-1, 3),
        deque([1, [2]]),
        {"a": 1}.keys(),
        {"a": [1]}.items(),
    ],
)
def test_plain_values_travel_without_loss(value: Any):
    again = loads(dumps(value))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Level.LOW, 3),
        (Counter("aab"), {"a": 2, "b": 1}),
        (OrderedDict(a=1), {"a": 1}),
        ((n for n in (1, 2)), [1, 2]),
        (map(str, [1]), ["1"]),
        ({"a": 1}.values(), [1]),
    ],
)
def test_values_that_act_like_plain_ones_travel_as_these(value: Any, plain: Any):
    again = loads(dumps(value))
    assert (again if isinstance(plain, int | dict) else list(again)) == plain


@pytest.mark.parametrize("base", [int, float, str, bytes, tuple, list, dict, frozenset, Decimal, Fraction, complex])
def test_subclasses_lose_what_they_override(base: type):
    lies = {"__eq__": lambda self, other: True, "__hash__": base.__hash__, "__ne__": lambda self, other: False}
    sly = type("Sly", (base,), lies)()
    again = loads(dumps([sly]))[0]
    assert type(again) is base
    assert not matches(again, "anything")
    assert not matches(again, [7])


def test_what_holds_itself_is_refused():
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(NotPlain, match="deep"):
        dumps(ring)


@pytest.mark.parametrize("value", [object(), lambda: None, int, math, ..., Decimal("sNaN")])
def test_what_is_no_plain_data_is_refused(value: Any):
    with pytest.raises(NotPlain):
        loads(dumps(value))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '["?"]',
        "[]",
        '["d", [1]]',
        '["s", ["l"]]',
        '["k", ["l"]]',
        '["m", "x"]',
        '["m", "1e9999999999999999999"]',
        '["n", "1", "0"]',
        "[" * 100_000,
        '["i", 5]',
        "1.5",
    ],
)
def test_text_that_is_no_tree_is_refused(text: str):
    with pytest.raises(NotPlain):
        loads(text)
