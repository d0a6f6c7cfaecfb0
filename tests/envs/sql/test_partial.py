"""Partial credit: near misses earn more than every known cheat, and the scores follow the definition."""

from __future__ import annotations

import pytest

from agentgym.envs.sql.grading import NEAR, match, partial
from tests.envs.sql.results import result

PEOPLE = [(f"P{i}", 20 + i, ("Oslo", "Rome", "Lima")[i % 3]) for i in range(12)]
GOLD = [(name, age) for name, age, _ in PEOPLE if age < 30]
CHEATS = {
    "select_star": PEOPLE[:10],
    "select_star_without_where": PEOPLE,
    "no_where_of_few_rows": [(name, age) for name, age, _ in PEOPLE],
    "wrong_row_association": [(name, 49 - age) for name, age in GOLD],
    "shuffled_column": [(name, GOLD[i - 1][1]) for i, (name, _) in enumerate(GOLD)],
    "constant_rows": [GOLD[0]] * len(GOLD),
    "cross_join": [(name, age) for name, _ in GOLD for _, age in GOLD],
    "one_guessed_cell": [(GOLD[0][0],)],
    "one_guessed_row": [GOLD[0]],
    "numbers_without_names": [("x", age) for _, age in GOLD],
    "every_small_number": [(str(i), i) for i in range(100)],
    "swapped_within_rows": [(name, age) if i % 2 else (age, name) for i, (name, age) in enumerate(GOLD)],
}
NEAR_MISSES = {
    "one_row_missing": GOLD[:-1],
    "one_row_too_many": [*GOLD, ("P10", 30)],
    "one_wrong_cell": [*GOLD[:-1], ("P9", 28)],
}


def score(predicted: list[tuple], gold: list[tuple], ordered: bool = False) -> float:
    return partial(result(*predicted, columns=2 if not predicted else None), result(*gold), ordered)


def test_cheats_earn_less_than_every_near_miss():
    misses = {name: score(rows, GOLD) for name, rows in NEAR_MISSES.items()}
    cheats = {name: score(rows, GOLD) for name, rows in CHEATS.items()}
    assert {name: value for name, value in misses.items() if not 0.4 < value < NEAR} == {}
    assert {name: value for name, value in cheats.items() if not value < min(0.42, *misses.values()) < NEAR} == {}
    blind = ("constant_rows", "one_guessed_cell", "cross_join", "every_small_number")
    assert {name: cheats[name] for name in blind if cheats[name] >= 0.05} == {}
    assert 0.4 < score(GOLD[::-1], GOLD, ordered=True) < NEAR


def test_only_a_match_earns_full_marks():
    for rows in (*CHEATS.values(), *NEAR_MISSES.values(), GOLD, GOLD[::-1]):
        for ordered in (False, True):
            is_match = match(result(*rows), result(*GOLD), ordered).equal
            assert (score(rows, GOLD, ordered) == 1.0) is is_match
            assert is_match or 0.0 <= score(rows, GOLD, ordered) < NEAR


TEN = [(f"P{i}", 20 + i) for i in range(10)]
SCORES = [
    (TEN[:-1], TEN, 36 / 38),  # F1 of 18 cells of 20
    ([*TEN, ("x", 0)], TEN, 20 / 22),  # precision of 22 cells
    ([(name,) for name, _ in TEN], TEN, 20 / 30),  # F1 of 10 cells of 20
    ([(name, age, 0) for name, age in TEN], TEN, 20 / 30),  # precision of 30 cells
    ([(age, name) for name, age in TEN[:5]], TEN, 20 / 30),  # F1 of 10 cells of 20
    # Repeated rows count once if that is less.
    ([("a",)] * 3, [("a",)] * 3 + [("b",)], 2 / 3),
    ([("a",), ("b",)], [("a",)] * 3 + [("b",)], 4 / 6),
    # Nearly equal fractions count as equal.
    ([("x", 0.1 + 0.2), ("y", 0.7 + 1e-10)], [("a", 0.3), ("b", 0.7)], 0.5),
    # The first column shares a little with both columns of the gold result, the second a lot: the best are chosen.
    ([(0 if i else 99, 10 + i) for i in range(6)], [(i, 10 + i) for i in range(6)], 0.5),
    # A column stands for one column.
    ([("a",), ("b",)], [("a", "a"), ("b", "b")], 2 / 3),
    ([("a", "a"), ("b", "b")], [("a",), ("b",)], 1 / 2),
]


def test_partial_credit_is_half_the_square_of_the_lower_of_precision_and_f1():
    expected = [pytest.approx(0.5 * share**2, rel=2e-3) for _, _, share in SCORES]
    assert [score(predicted, gold) for predicted, gold, _ in SCORES] == expected


def test_results_with_nothing_in_common_earn_nothing():
    nulls = [("Ann", None), ("Bob", None), ("Cy", 3)]
    assert score([("x", 1)], [("a", 2), ("b", 3)]) == 0.0
    assert score([], GOLD) == partial(result(*GOLD), result(columns=2)) == 0.0
    assert partial(result(*GOLD, truncated=True), result(*GOLD)) == 0.0
    assert score([(None,)] * 3, nulls) == score([(None, None)] * 3, nulls) == 0.0
    assert score([("Ann", None), ("Bob", None), ("Cy", 4)], nulls) > 0.1
    cities = [("Oslo",)] * 7 + [("Rome",), ("Lima",), ("Bonn",)]
    assert score([("Oslo",)] * 10, cities) < 0.1


def test_very_wide_and_very_long_results_earn_no_partial_credit():
    wide, wider = tuple(range(20)), tuple(range(21))
    assert score([wide], [wide, tuple(range(50, 70))]) > 0.2
    assert score([wider], [wide]) == score([wide], [wider]) == score([wider], [wider, wider]) == 0.0
    rows = [("a", "b")] * 100_000
    assert score(rows, [("a", "b"), ("c", "d")]) > 0.0
    assert score([*rows, ("a", "b")], [("a", "b"), ("c", "d")]) == 0.0
