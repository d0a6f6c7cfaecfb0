"""Execution match: what counts as the same result, and what does not."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal

import pytest

from agentgym.envs.sql.grading import answer_matches, match, why_wrong
from agentgym.tools.database.base import QueryResult


def result(*rows: tuple, columns: int | None = None, truncated: bool = False) -> QueryResult:
    width = len(rows[0]) if columns is None else columns
    return QueryResult(tuple(f"c{i}" for i in range(width)), ("?",) * width, rows, truncated, 0.0)


def test_a_result_matches_itself():
    gold = result(("Ann", 31, None), ("Bob", 4.5, "x"))
    assert match(gold, gold)


def test_rows_match_in_any_order_unless_the_question_asks_for_one():
    gold, other = result((1,), (2,), (3,)), result((3,), (1,), (2,))
    assert match(other, gold, ordered=False)
    assert not match(other, gold, ordered=True)
    assert match(result((1,), (2,), (3,)), gold, ordered=True)


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (result((2,), (1,)), "the right rows in another order"),
        (result((1,), (3,)), "other values"),
        (result((1,)), "rows: 1 instead of 2"),
        (result((1, 1), (2, 2)), "columns: 2 instead of 1"),
        (result((1,), (2,), truncated=True), "too large to compare"),
    ],
)
def test_why_a_result_is_wrong_is_said_without_showing_the_gold(other: QueryResult, why: str):
    assert why_wrong(other, result((1,), (2,))) == why


def test_duplicate_rows_count():
    assert not match(result((1,), (1,), (2,)), result((1,), (2,), (2,)))
    assert not match(result((1,), (2,)), result((1,), (2,), (2,)))
    assert match(result((2,), (1,), (2,)), result((1,), (2,), (2,)))


def test_null_equals_null_and_nothing_else():
    assert match(result((None, 1), (2, None)), result((2, None), (None, 1)))
    assert not match(result((None,)), result((0,)))
    assert not match(result((None,)), result(("",)))
    assert not match(result((None,)), result(("NULL",)))


def test_column_names_do_not_matter_but_their_number_does():
    named = QueryResult(("total",), ("BIGINT",), ((3,),), False, 0.0)
    assert match(named, result((3,)))
    assert not match(result((3, 3)), result((3,)))
    assert not match(result((3,)), result((3, 3)))


def test_columns_may_stand_in_another_order_if_it_is_the_same_for_all_rows():
    gold = result(("Ann", 31), ("Bob", 25))
    assert match(result((25, "Bob"), (31, "Ann")), gold)
    assert match(result((31, "Ann"), (25, "Bob")), gold, ordered=True)
    assert not match(result(("Ann", 31), (25, "Bob")), gold)


def test_values_in_the_wrong_rows_do_not_match():
    assert not match(result(("Ann", 25), ("Bob", 31)), result(("Ann", 31), ("Bob", 25)))


def test_numbers_are_equal_by_value_whatever_their_type():
    assert match(result((3.0, Decimal("2.50"), True)), result((3, 2.5, 1)))
    assert match(result((0.1 + 0.2,)), result((0.3,)))
    assert match(result((1e9 + 1e-4,)), result((1e9,)))


def test_whole_numbers_have_no_tolerance():
    assert not match(result((1_000_000_000,)), result((1_000_000_001,)))
    assert not match(result((1_000_000_000.0,)), result((1_000_000_001,)))


def test_fractions_that_differ_visibly_do_not_match():
    assert not match(result((3.14,)), result((3.14159,)))
    assert not match(result((0.0,)), result((1e-6,)))


def test_tolerance_pairs_rows_whose_sorting_differs():
    tiny = 1e-9
    mine = result((1.5 + tiny, "a"), (1.5, "b"), (1.5, "c"))
    assert match(mine, result((1.5 + tiny, "b"), (1.5, "a"), (1.5, "c")))
    assert not match(mine, result((1.5, "a"), (1.5, "b"), (1.5, "d")))


def test_infinity_and_not_a_number_equal_themselves_only():
    assert match(result((float("nan"), 1)), result((float("nan"), 1)))
    assert match(result((float("inf"),)), result((float("inf"),)))
    assert not match(result((float("inf"),)), result((float("-inf"),)))
    assert not match(result((float("nan"),)), result((None,)))


def test_dates_equal_their_iso_text_and_midnight():
    day = datetime.date(2024, 2, 29)
    assert match(result((day,)), result(("2024-02-29",)))
    assert match(result((datetime.datetime(2024, 2, 29),)), result((day,)))
    assert match(result(("2024-02-29 00:00:00",)), result((day,)))
    assert not match(result((datetime.datetime(2024, 2, 29, 8),)), result((day,)))


def test_text_is_compared_as_it_is():
    assert not match(result(("Oslo",)), result(("oslo",)))
    assert not match(result(("5",)), result((5,)))


def test_a_result_that_was_cut_short_never_matches():
    cut = result((1,), (2,), truncated=True)
    assert not match(cut, result((1,), (2,)))
    assert not match(cut, cut)


def test_empty_results_match_if_they_have_as_many_columns():
    assert match(result(columns=2), result(columns=2))
    assert not match(result(columns=1), result(columns=2))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("ordered", [False, True])
def test_big_results_with_many_alike_columns_end_in_time(ordered: bool):
    rng = random.Random(0)
    rows = [tuple(rng.randint(0, 1) for _ in range(12)) for _ in range(2_000)]
    shuffled = rng.sample(rows, len(rows))
    wrong = [(*row[:-1], 1 - row[-1]) if i < 2 else row for i, row in enumerate(shuffled)]
    assert not match(result(*wrong), result(*rows), ordered)
    floats = [(rng.random(), rng.random()) for _ in range(5_000)]
    assert not match(result(*floats), result(*[(b, a + 1e-3) for a, b in floats]), ordered)


def test_match_is_unchanged_by_any_shuffle_of_rows_and_columns():
    rng = random.Random(1)
    for _ in range(200):
        width = rng.randint(1, 4)
        rows = [tuple(rng.choice([0, 1, 1.5, None, "a", "b"]) for _ in range(width)) for _ in range(rng.randint(1, 8))]
        order = rng.sample(range(width), width)
        moved = [tuple(row[i] for i in order) for row in rng.sample(rows, len(rows))]
        assert match(result(*moved), result(*rows))
        assert match(result(*rows), result(*moved))


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("42", 42), (" 42. ", 42), ("42.0", 42), ("1,234", 1234), ("3.33", 10 / 3), ("3.3333", 10 / 3),
        ("OSLO", "Oslo"), ("'Oslo'", "Oslo"), ('"From Here"', "From Here"), ("true", True), ("NULL", None),
        ("2024-02-29", datetime.date(2024, 2, 29)), ("-0.05", -0.05), ("1e3", 1000),
    ],
)  # fmt: skip
def test_a_value_answers_a_single_cell(answer: str, gold: object):
    assert answer_matches(answer, result((gold,)))


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("41", 42), ("3.3", 10 / 3), ("0.00", 0.004), ("Bergen", "Oslo"), ("", "Oslo"), ("42 or 43", 42),
        ("nan", 42), ("false", True), ("0", None), ("12,34", 12),
    ],
)  # fmt: skip
def test_a_wrong_value_does_not(answer: str, gold: object):
    assert not answer_matches(answer, result((gold,)))


def test_a_list_answers_a_column_in_any_order_or_in_the_one_asked_for():
    gold = result(("Ann",), ("Bob",), ("Cy",))
    assert answer_matches("Cy, Ann, Bob", gold)
    assert answer_matches("[Ann | bob | Cy]", gold)
    assert not answer_matches("Cy, Ann, Bob", gold, ordered=True)
    assert not answer_matches("Ann, Ann, Bob", gold)
    assert not answer_matches("Ann, Bob", gold)


def test_a_list_answers_a_row_in_its_order():
    assert answer_matches("Ann, 31", result(("Ann", 31)))
    assert not answer_matches("31, Ann", result(("Ann", 31)))
    assert not answer_matches("Ann, 31", result(("Ann", 31), ("Bob", 2)))
