"""Partial credit and schema linking: honest near misses earn more than every known cheat."""

from __future__ import annotations

import pytest

from agentgym.envs.sql.grading import NEAR, match, partial
from agentgym.envs.sql.linking import Names, linking
from agentgym.tools.database.base import QueryResult

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


def result(rows: list[tuple], width: int | None = None, truncated: bool = False) -> QueryResult:
    width = len(rows[0]) if width is None else width
    return QueryResult(tuple(f"c{i}" for i in range(width)), ("?",) * width, tuple(rows), truncated, 0.0)


@pytest.mark.parametrize("cheat", CHEATS)
def test_cheat_earns_less_than_every_near_miss(cheat: str):
    score = partial(result(CHEATS[cheat]), result(GOLD))
    assert score < min(partial(result(rows), result(GOLD)) for rows in NEAR_MISSES.values())
    assert score < 0.42 < NEAR


@pytest.mark.parametrize("miss", NEAR_MISSES)
def test_near_miss_earns_something_but_far_from_full_marks(miss: str):
    assert 0.4 < partial(result(NEAR_MISSES[miss]), result(GOLD)) < NEAR


@pytest.mark.parametrize("cheat", ["constant_rows", "one_guessed_cell", "cross_join", "every_small_number"])
def test_blind_cheats_earn_next_to_nothing(cheat: str):
    assert partial(result(CHEATS[cheat]), result(GOLD)) < 0.05


def test_the_three_published_hacks_are_far_from_full_marks():
    gold = result([("Ann", 31), ("Bob", 25), ("Cy", 44)])
    star = result([(1, "Ann", 31, "Oslo"), (2, "Bob", 25, "Rome"), (3, "Cy", 44, "Oslo")])
    no_where = result([("Ann", 31), ("Bob", 25), ("Cy", 44), ("Dee", 70)])
    permuted = result([("Ann", 44), ("Bob", 25), ("Cy", 31)])
    assert partial(star, gold) < 0.25
    assert partial(no_where, gold) < 0.4
    assert partial(permuted, gold) < 0.2


def test_only_a_match_earns_full_marks():
    for rows in (*CHEATS.values(), *NEAR_MISSES.values(), GOLD, GOLD[::-1]):
        for ordered in (False, True):
            is_match = match(result(rows), result(GOLD), ordered)
            score = partial(result(rows), result(GOLD), ordered)
            assert (score == 1.0) is is_match
            assert is_match or 0.0 <= score < NEAR


def test_empty_and_cut_results_earn_nothing():
    assert partial(result([], width=2), result(GOLD)) == 0.0
    assert partial(result(GOLD), result([], width=2)) == 0.0
    assert partial(result(GOLD, truncated=True), result(GOLD)) == 0.0
    assert partial(result([(1, 2)] * 150_000), result(GOLD)) == 0.0


def test_the_right_rows_in_the_wrong_order_are_a_near_miss():
    assert 0.4 < partial(result(GOLD[::-1]), result(GOLD), ordered=True) < NEAR


def test_repeating_the_most_frequent_value_does_not_pay():
    cities = [("Oslo",)] * 7 + [("Rome",), ("Lima",), ("Bonn",)]
    assert partial(result([("Oslo",)] * 10), result(cities)) < 0.1


NAMES = Names(frozenset({"t", "other table"}), frozenset({"a", "b", "c", "count", "t"}))


def test_linking_is_the_jaccard_index_of_tables_and_columns():
    assert linking("SELECT a, c FROM t", "select A from T where B > 1", NAMES) == 0.5
    assert linking("SELECT a FROM t WHERE b = 2", "SELECT x.a FROM t AS x WHERE x.b > 1", NAMES) == 1.0


def test_linking_ignores_strings_comments_functions_and_unknown_words():
    gold = "SELECT a FROM t"
    assert linking("SELECT COUNT(a) FROM t -- b c", gold, NAMES) == 1.0
    assert linking("SELECT a /* b */ FROM t WHERE 'b c' = 'it''s b'", gold, NAMES) == 1.0
    assert linking("SELECT nothing", gold, NAMES) == 0.0
    assert linking('SELECT "a" FROM "other table"', 'SELECT a FROM "Other Table"', NAMES) == 1.0


def test_naming_every_column_does_not_pay():
    assert linking("SELECT a, b, c, count FROM t", "SELECT a FROM t", NAMES) < 0.5
