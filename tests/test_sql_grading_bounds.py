"""Where execution match, partial credit and answers as text change their mind: tolerances, limits, exact scores."""

from __future__ import annotations

import random

import pytest

from agentgym.envs.sql.cells import common_rows
from agentgym.envs.sql.grading import answer_matches, match, partial
from agentgym.envs.sql.ties import match_up_to_ties
from agentgym.tools.database import QueryError
from agentgym.tools.database.base import QueryResult


def result(*rows: tuple, columns: int | None = None, truncated: bool = False) -> QueryResult:
    width = len(rows[0]) if columns is None else columns
    return QueryResult(tuple(f"c{i}" for i in range(width)), ("?",) * width, rows, truncated, 0.0)


def score(predicted: list[tuple], gold: list[tuple]) -> float:
    return partial(result(*predicted), result(*gold))


def test_the_order_of_rows_counts_only_where_it_is_asked_for():
    rows, turned = [("Ann",), ("Bob",)], result(("Bob",), ("Ann",))
    assert match(result(*rows), turned)
    assert partial(result(*rows), turned) == 1.0
    assert answer_matches("Ann, Bob", turned)
    assert not match(result(*rows), turned, ordered=True)
    assert partial(result(*rows), turned, ordered=True) < 1.0
    assert not answer_matches("Ann, Bob", turned, ordered=True)


# Cells.


@pytest.mark.parametrize(("error", "equal"), [(0.9e-6, True), (-0.9e-6, True), (1.2e-6, False), (-1.2e-6, False)])
def test_fractions_may_differ_by_a_millionth(error: float, equal: bool):
    assert match(result((1.5 * (1 + error),)), result((1.5,))) is equal
    assert match(result((1.5 * (1 + error), "a")), result((1.5, "a"))) is equal


@pytest.mark.parametrize(("value", "equal"), [(0.9e-9, True), (2e-9, False)])
def test_next_to_nothing_is_nothing(value: float, equal: bool):
    assert match(result((value,)), result((0,))) is equal
    assert match(result((0.0,)), result((value,))) is equal


def test_tiny_numbers_are_compared_with_each_other_and_not_by_way_of_zero():
    assert match(result((1e-10,)), result((1.05e-9,)))


@pytest.mark.parametrize("text", ["12345678901 00:00:00", "abcdefghijklmnopqrs"])
def test_only_a_timestamp_at_midnight_is_a_date(text: str):
    assert not match(result((text,)), result((text[:10],)))


def test_text_that_reads_like_a_number_is_none():
    assert not match(result(("1.5",)), result((1.5,)))
    assert not match(result((1.5, "1.5")), result((1.5, 1.5)))


@pytest.mark.parametrize("count", [20, 600])
def test_many_fractions_match_whatever_their_order_and_one_wrong_one_is_found(count: int):
    rng = random.Random(count)
    rows = [(rng.random() * 100, i % 7) for i in range(count)]
    noisy = rng.sample([(value * (1 + 1e-9), group) for value, group in rows], count)
    assert match(result(*noisy), result(*rows))
    wrong = [(noisy[0][0] + 1, noisy[0][1]), *noisy[1:]]
    assert not match(result(*wrong), result(*rows))


# Columns.


def test_a_column_answers_for_one_column_only():
    assert not match(result((1, 5), (2, 6)), result((1, 1), (2, 2)))


def test_a_gold_result_that_was_cut_short_is_matched_by_nothing():
    assert not match(result((1,)), result((1,), truncated=True))
    assert partial(result((1,)), result((1,), truncated=True)) < 0.5


def test_columns_that_each_agree_must_agree_together():
    """Three columns, of which any two could be matched."""
    gold = [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)]
    assert not match(result(*[(a, b, 1 - c) for a, b, c in gold]), result(*gold))
    assert match(result(*[(c, a, b) for a, b, c in reversed(gold)]), result(*gold))


# Partial credit.

GOLD = [(f"P{i}", 20 + i) for i in range(10)]


@pytest.mark.parametrize(
    ("predicted", "share"),
    [
        (GOLD[:-1], 36 / 38),  # F1 of 18 cells of 20
        ([*GOLD, ("x", 0)], 20 / 22),  # precision of 22 cells
        ([(name,) for name, _ in GOLD], 20 / 30),  # F1 of 10 cells of 20
        ([(name, age, 0) for name, age in GOLD], 20 / 30),  # precision of 30 cells
        ([(age, name) for name, age in GOLD[:5]], 20 / 30),  # F1 of 10 cells of 20
    ],
)
def test_partial_credit_is_half_the_square_of_the_lower_of_precision_and_f1(predicted: list[tuple], share: float):
    assert score(predicted, GOLD) == pytest.approx(0.5 * share**2, rel=2e-3)


def test_repeated_rows_count_once_if_that_is_less():
    assert score([("a",)] * 3, [("a",)] * 3 + [("b",)]) == pytest.approx(0.5 * (2 / 3) ** 2, rel=2e-3)
    assert score([("a",), ("b",)], [("a",)] * 3 + [("b",)]) == pytest.approx(0.5 * (4 / 6) ** 2, rel=2e-3)


def test_nearly_equal_fractions_earn_partial_credit():
    gold = [("a", 0.3), ("b", 0.7)]
    assert score([("x", 0.1 + 0.2), ("y", 0.7 + 1e-10)], gold) == pytest.approx(0.5 * 0.5**2, rel=2e-3)


def test_the_best_columns_are_chosen_for_partial_credit():
    """The first column of the prediction shares a little with both columns of the gold result, its second a lot."""
    gold = [(i, 10 + i) for i in range(6)]
    assert score([(0 if i else 99, 10 + i) for i in range(6)], gold) == pytest.approx(0.5 * 0.5**2, rel=2e-3)


def test_a_column_stands_for_one_column():
    twice = [("a", "a"), ("b", "b")]
    once = [("a",), ("b",)]
    assert score(once, twice) == pytest.approx(0.5 * (2 / 3) ** 2, rel=2e-3)
    assert score(twice, once) == pytest.approx(0.5 * (1 / 2) ** 2, rel=2e-3)


def test_very_wide_results_earn_no_partial_credit():
    wide, wider = tuple(range(20)), tuple(range(21))
    assert score([wide], [wide, tuple(range(50, 70))]) > 0.2
    assert score([wider], [wide]) == score([wide], [wider]) == score([wider], [wider, wider]) == 0.0


def test_very_long_results_earn_no_partial_credit():
    rows = [("a", "b")] * 100_000
    assert score(rows, [("a", "b"), ("c", "d")]) > 0.0
    assert score([*rows, ("a", "b")], [("a", "b"), ("c", "d")]) == 0.0


def test_nothing_in_common_earns_nothing():
    assert score([("x", 1)], [("a", 2), ("b", 3)]) == 0.0


# Answers as text.


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [
        ("0.01", 0.0149, True),
        ("0.02", 0.0149, False),
        ("3.34", 10 / 3, False),
        ("3.333", 10 / 3, True),
        ("2.00", 2.004, True),
        ("2.0", 2.04, False),
        ("-3.33", -10 / 3, True),
        ("3.33", -10 / 3, False),
        ("0.00", 0.0, True),
        ("3.33e0", 10 / 3, False),
        ("1,234.50", 1234.5, True),
        ("false", 0, True),
        ("true", 0, False),
        ("none", None, True),
        ("null", 0, False),
        ("'`Oslo`'", "Oslo", True),
        ('""', "", True),
        ('"', "", False),
        ("Oslo.", "Oslo", True),
        ("'Oslo", "Oslo", False),
    ],
)
def test_a_number_may_be_rounded_to_two_decimals_and_words_may_be_quoted(answer: str, gold: object, right: bool):
    assert answer_matches(answer, result((gold,))) is right


@pytest.mark.parametrize("answer", ["Ann\nBob", "Ann | Bob", "Ann; Bob", "(Ann, Bob)", "[Ann, Bob]", "Ann,, Bob,"])
def test_a_list_may_be_written_in_many_ways(answer: str):
    assert answer_matches(answer, result(("Ann",), ("Bob",)))


def test_brackets_that_belong_to_a_value_stay():
    assert answer_matches("Ann, Bob (x)", result(("Ann",), ("Bob (x)",)))
    assert answer_matches("(x) Ann, Bob", result(("(x) Ann",), ("Bob",)))


def test_every_value_of_a_list_answers_once():
    assert answer_matches("2.50, 2.504", result((2.504,), (2.5,)))
    assert not answer_matches("Ann, Ann", result(("Ann",), ("Bob",)))
    assert not answer_matches("Ann, Bob", result(("Ann",), ("Ann",)))


def test_a_table_cannot_be_answered_as_text_nor_can_nothing_or_a_part():
    assert not answer_matches("Ann, 31, Bob, 2", result(("Ann", 31), ("Bob", 2)))
    assert not answer_matches("", result(columns=1))
    assert not answer_matches("Ann", result(("Ann",), truncated=True))


def test_long_lists_are_answered_in_any_order():
    rows = [(f"n{i}",) for i in range(300)]
    names = [name for (name,) in rows]
    assert answer_matches(", ".join(reversed(names)), result(*rows))
    assert not answer_matches(", ".join([*names[:-1], "n0"]), result(*rows))
    assert not answer_matches(", ".join(reversed(names)), result(*rows), ordered=True)


def test_a_row_that_has_found_its_equal_is_no_partner_for_one_that_is_close():
    rows = [(1.5,), (1.5 + 1e-9,)]
    assert common_rows(rows, [(1.5,)], frozenset({0})) == common_rows([(1.5,)], rows, frozenset({0})) == 1
    assert common_rows(rows, rows, frozenset({0})) == 2


# Ties.

TIED = result(("Ann",), ("Cy",))
SWAPPED = result(("Cy",), ("Ann",))
BY_AGE = "SELECT name FROM people ORDER BY age"


@pytest.mark.parametrize(
    "keyed",
    [
        result(("Ann", 31), ("Bob", 31)),  # other rows
        result(("Ann",), ("Cy",)),  # no key
        result(("Ann", 31), ("Cy", 32)),  # no tie
        result(("Cy", 31), ("Ann", 31)),  # the rows in another order than the gold's
    ],
)
def test_rows_change_places_only_where_the_sort_keys_of_the_same_rows_tie(keyed: QueryResult):
    assert not match_up_to_ties(SWAPPED, TIED, BY_AGE, "sqlite", lambda sql: keyed)
    tie = result(("Ann", 31), ("Cy", 31))
    assert match_up_to_ties(SWAPPED, TIED, BY_AGE, "sqlite", lambda sql: tie)


def test_a_gold_query_that_cannot_be_run_with_its_keys_stays_strict():
    def broken(sql: str) -> QueryResult:
        raise QueryError("no such column")

    assert not match_up_to_ties(SWAPPED, TIED, BY_AGE, "sqlite", broken)
    assert not match_up_to_ties(SWAPPED, TIED, "SELECT name FROM people", "sqlite", broken)
