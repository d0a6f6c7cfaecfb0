"""Execution match and answers as text, with their tolerances."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import pytest

from agentgym.core.answers.cells import common_rows
from agentgym.envs.sql.grading import answer_decision, match, partial, why_wrong
from agentgym.envs.sql.verdict import verdict_on_value
from agentgym.tools.database.base import QueryResult
from tests.envs.sql.results import result

NAN, INF, THIRD = float("nan"), float("inf"), 10 / 3
DAY = datetime.date(2024, 2, 29)

CELLS: list[tuple[Any, Any, bool]] = [
    # Numbers are equal by value, whatever their type.
    (3.0, 3, True), (Decimal("2.50"), 2.5, True), (True, 1, True), (0.1 + 0.2, 0.3, True), (1e9 + 1e-4, 1e9, True),
    # Whole numbers have no tolerance, and fractions that differ visibly differ.
    (10**9, 10**9 + 1, False), (1e9, 10**9 + 1, False), (3.15, 3.14159, False), (0.0, 1e-6, False),
    # Fractions may be rounded to two decimals or differ by a rounding error, and next to nothing is nothing.
    (3.14, 3.14159, True), (3.14159, 3.14, False), (1.5 * (1 + 0.9e-9), 1.5, True), (1.5 * (1 + 1.2e-9), 1.5, False),
    (0.9e-9, 0, True), (2e-9, 0, False), (0.0, 0.9e-9, True), (0.0, 2e-9, False), (1e-10, 1.05e-9, False),
    (NAN, NAN, True), (INF, INF, True), (INF, -INF, False), (NAN, None, False),
    # A date equals its text and its midnight, and only a timestamp at midnight is a date.
    (DAY, "2024-02-29", True), (datetime.datetime(2024, 2, 29), DAY, True), ("2024-02-29 00:00:00", DAY, True),
    (datetime.datetime(2024, 2, 29, 8), DAY, False), ("12345678901 00:00:00", "1234567890", False),
    ("abcdefghijklmnopqrs", "abcdefghij", False),
    # Text is compared as it is, and NULL equals nothing else.
    ("Oslo", "oslo", False), ("5", 5, False), ("1.5", 1.5, False),
    (None, None, True), (None, 0, False), (None, "", False), (None, "NULL", False),
]  # fmt: skip


def test_cells_are_equal_by_value_within_the_tolerances():
    failing = [
        (cell, gold)
        for cell, gold, equal in CELLS
        if match(result((cell,)), result((gold,))).equal is not equal
        or match(result((cell, "a")), result((gold, "a"))).equal is not equal
    ]
    assert failing == []


PARITY = [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]
"""Three columns; any two of them could be matched."""
TINY = 5e-10
ROWS: list[tuple[list[tuple], list[tuple], bool]] = [
    ([("Ann", 31, None), ("Bob", 4.5, "x")], [("Ann", 31, None), ("Bob", 4.5, "x")], True),
    ([(3,), (1,), (2,)], [(1,), (2,), (3,)], True),
    ([(1,), (1,), (2,)], [(1,), (2,), (2,)], False),
    ([(1,), (2,)], [(1,), (2,), (2,)], False),
    ([(2,), (1,), (2,)], [(1,), (2,), (2,)], True),
    ([(None, 1), (2, None)], [(2, None), (None, 1)], True),
    ([(3, 3)], [(3,)], False),
    ([(3,)], [(3, 3)], False),
    ([(25, "Bob"), (31, "Ann")], [("Ann", 31), ("Bob", 25)], True),
    ([("Ann", 31), (25, "Bob")], [("Ann", 31), ("Bob", 25)], False),
    ([("Ann", 25), ("Bob", 31)], [("Ann", 31), ("Bob", 25)], False),
    ([(1, 5), (2, 6)], [(1, 1), (2, 2)], False),
    ([(1.5, "1.5")], [(1.5, 1.5)], False),
    ([(NAN, 1)], [(NAN, 1)], True),
    ([(1.5 + TINY, "a"), (1.5, "b"), (1.5, "c")], [(1.5 + TINY, "b"), (1.5, "a"), (1.5, "c")], True),
    ([(1.5 + TINY, "a"), (1.5, "b"), (1.5, "c")], [(1.5, "a"), (1.5, "b"), (1.5, "d")], False),
    ([(a, b, 1 - c) for a, b, c in PARITY], PARITY, False),
    ([(c, a, b) for a, b, c in reversed(PARITY)], PARITY, True),
]


def test_rows_match_as_multisets_with_columns_in_one_order():
    assert [row for row in ROWS if match(result(*row[0]), result(*row[1])).equal is not row[2]] == []
    assert match(QueryResult(("total",), ("BIGINT",), ((3,),), False, 0.0), result((3,)))
    assert match(result(columns=2), result(columns=2))
    assert not match(result(columns=1), result(columns=2))


def test_order_counts_only_where_the_question_asks_for_it():
    rows, turned = [("Ann",), ("Bob",)], result(("Bob",), ("Ann",))
    assert match(result(*rows), turned)
    assert partial(result(*rows), turned) == 1.0
    assert answer_decision("Ann, Bob", turned)
    assert not match(result(*rows), turned, ordered=True)
    assert partial(result(*rows), turned, ordered=True) < 1.0
    assert not answer_decision("Ann, Bob", turned, ordered=True)
    assert match(result(*rows), result(*rows), ordered=True)
    assert match(result((31, "Ann"), (25, "Bob")), result(("Ann", 31), ("Bob", 25)), ordered=True)


def test_truncated_results_match_nothing():
    cut = result((1,), (2,), truncated=True)
    assert not any([match(cut, result((1,), (2,))), match(result((1,), (2,)), cut), match(cut, cut)])
    assert partial(result((1,)), result((1,), truncated=True)) < 0.5
    assert not answer_decision("Ann", result(("Ann",), truncated=True))
    title = "Select Comfort from Minnesota"
    assert verdict_on_value(title, result((title,)), False, "").solved
    assert verdict_on_value(title, result(("Ann",)), False, "").refused


def test_the_reason_of_a_mismatch_does_not_show_the_gold():
    gold = result((1,), (2,))
    assert why_wrong(result((2,), (1,)), gold) == "the right rows in another order"
    assert why_wrong(result((1,), (3,)), gold) == "other values"
    assert why_wrong(result((1,)), gold) == "rows: 1 instead of 2"
    assert why_wrong(result((1, 1), (2, 2)), gold) == "columns: 2 instead of 1"
    assert why_wrong(result((1,), (2,), truncated=True), gold) == "too large to compare"


def test_exactly_equal_rows_are_paired_before_close_ones():
    rows = [(1.5,), (1.5 + TINY,)]
    assert common_rows(rows, [(1.5,)], frozenset({0})) == common_rows([(1.5,)], rows, frozenset({0})) == 1
    assert common_rows(rows, rows, frozenset({0})) == 2


def test_many_fractions_match_in_any_order_unless_one_differs():
    for count in (20, 600):
        rng = random.Random(count)
        rows = [(rng.random() * 100, i % 7) for i in range(count)]
        noisy = rng.sample([(value * (1 + TINY), group) for value, group in rows], count)
        assert match(result(*noisy), result(*rows))
        assert not match(result((noisy[0][0] + 1, noisy[0][1]), *noisy[1:]), result(*rows))


@pytest.mark.timeout(120)
def test_big_results_with_similar_columns_are_compared_in_time():
    rng = random.Random(0)
    rows = [tuple(rng.randint(0, 1) for _ in range(12)) for _ in range(2_000)]
    shuffled = rng.sample(rows, len(rows))
    wrong = [(*row[:-1], 1 - row[-1]) if i < 2 else row for i, row in enumerate(shuffled)]
    floats = [(rng.random(), rng.random()) for _ in range(5_000)]
    for ordered in (False, True):
        assert not match(result(*wrong), result(*rows), ordered)
        assert not match(result(*floats), result(*[(b, a + 1e-3) for a, b in floats]), ordered)


VALUES: list[tuple[str, Any, bool]] = [
    ("42", 42, True), (" 42. ", 42, True), ("42.0", 42, True), ("41", 42, False), ("42 or 43", 42, False),
    ("nan", 42, False), ("1,234", 1234, True), ("12,34", 1234, False), ("3,5", 35, False),
    ("1,203,000", 1203000, True), ("1,234.50", 1234.5, True), ("1e3", 1000, True),
    # A number may be rounded to two decimals.
    ("3.33", THIRD, True), ("3.333", THIRD, True), ("3.3333", THIRD, True), ("3.3", THIRD, False),
    ("3.34", THIRD, False), ("3.33e0", THIRD, True), ("-3.33", -THIRD, True), ("3.33", -THIRD, False),
    ("0.01", 0.0149, True), ("0.02", 0.0149, False), ("2.00", 2.004, True), ("2.0", 2.04, False),
    ("0.00", 0.004, False), ("0.00", 0.0, True), ("-0.05", -0.05, True),
    # Words need no case and may be quoted.
    ("OSLO", "Oslo", True), ("'Oslo'", "Oslo", True), ("'`Oslo`'", "Oslo", True), ("Oslo.", "Oslo", True),
    ("'Oslo", "Oslo", False), ('"From Here"', "From Here", True), ("Bergen", "Oslo", False), ("", "Oslo", False),
    ('""', "", True), ('"', "", False), ("2024-02-29", DAY, True),
    ("true", True, True), ("false", True, False), ("false", 0, True), ("true", 0, False),
    ("NULL", None, True), ("none", None, True), ("null", 0, False), ("0", None, False),
]  # fmt: skip
NAMES = [("Ann",), ("Bob",), ("Cy",)]
LISTS: list[tuple[str, list[tuple], bool]] = [
    ("Cy, Ann, Bob", NAMES, True), ("[Ann | bob | Cy]", NAMES, True), ("Ann, Ann, Bob", NAMES, False),
    ("Ann, Bob", NAMES, False),
    *((text, NAMES[:2], True) for text in ("Ann\nBob", "Ann; Bob", "(Ann, Bob)", "[Ann, Bob]", "Ann,, Bob,")),
    # Brackets that belong to a value stay.
    ("Ann, Bob (x)", [("Ann",), ("Bob (x)",)], True), ("(x) Ann, Bob", [("(x) Ann",), ("Bob",)], True),
    # Every value answers once.
    ("2.50, 2.504", [(2.504,), (2.5,)], True), ("Ann, Ann", NAMES[:2], False), ("Ann, Bob", [("Ann",)] * 2, False),
    # A row has its order, and a table cannot be answered.
    ("Ann, 31", [("Ann", 31)], True), ("31, Ann", [("Ann", 31)], False), ("Ann, 31", [("Ann", 31), ("Bob", 2)], False),
    ("Ann, 31, Bob, 2", [("Ann", 31), ("Bob", 2)], False),
]  # fmt: skip


def test_a_value_answers_a_single_cell():
    assert [row for row in VALUES if answer_decision(row[0], result((row[1],))).equal is not row[2]] == []
    assert not answer_decision("", result(columns=1))


def test_a_list_answers_a_column_or_a_row():
    assert [row for row in LISTS if answer_decision(row[0], result(*row[1])).equal is not row[2]] == []
    rows = [(f"n{i}",) for i in range(300)]
    names = [name for (name,) in rows]
    assert answer_decision(", ".join(reversed(names)), result(*rows))
    assert not answer_decision(", ".join([*names[:-1], "n0"]), result(*rows))
    assert not answer_decision(", ".join(reversed(names)), result(*rows), ordered=True)
