"""Other values for the constants of tests: near the true one on all sides, and nothing that would look odd there."""

from __future__ import annotations

import random
from collections.abc import Sequence

from agentgym.envs.swe.values import Pools, Value, changeable, others
from tests.rows import each_row


def drawn(value: Value, near: Sequence[Value] = (), wide: Sequence[Value] = (), seed: int = 0) -> list[Value]:
    return list(others(value, Pools(near, wide), random.Random(seed)))


def test_values_without_others_of_their_kind_are_not_changeable():
    assert all(map(changeable, (True, 0, 1.5, "", b"")))
    assert not any(map(changeable, (None, float("nan"), 1j, ..., ())))


def test_a_truth_has_one_other():
    assert drawn(True) == [False]
    assert drawn(False, [True, False], [True]) == [True]


@each_row(
    "value, found",
    [
        (0, {1, 2, 3}),
        (2, {0, 1, 3, 4, 5}),
        (19, {16, 17, 18, 20, 21, 22, 91}),
        (20, {17, 18, 19, 21, 22, 23, 10, 30}),
        (100, {97, 98, 99, 101, 102, 103, 90, 110}),
    ],
)
def test_a_number_has_those_of_a_miscount_on_both_sides_and_none_below_0(value: int, found: set[int]):
    assert set(drawn(value)) == found


def test_neighbouring_digits_are_exchanged_but_for_a_leading_zero():
    assert {5467, 4657, 4576} <= set(drawn(4567))
    assert {1402, 1024} <= set(drawn(1042))
    assert 142 not in drawn(1042)


@each_row(
    "value, found",
    [
        (2.5, {0.5, 1.5, 3.5, 4.5, 2.3, 2.4, 2.6, 2.7}),
        (0.25, {1.25, 2.25, 0.05, 0.15, 0.35, 0.45, 0.23, 0.24, 0.26, 0.27}),
        (0.125, {1.125, 2.125, 0.105, 0.115, 0.135, 0.145, 0.123, 0.124, 0.126, 0.127}),
    ],
)
def test_a_fraction_has_those_that_differ_in_one_digit_that_is_written(value: float, found: set[float]):
    assert set(drawn(value)) == found


@each_row("value", [0.0, 1e-7, 0.125, 3.14159, 1234.5, 1_000_000.5, 1e20])
def test_fractions_are_too_far_from_the_true_one_for_any_tolerance_and_not_below_0(value: float):
    assert all(isinstance(one, float) and one >= 0 and abs(one - value) > 1e-3 * value for one in drawn(value))


def test_numbers_in_a_text_keep_their_width():
    assert set(drawn("chapter 12")) == {f"chapter {number}" for number in (10, 11, 13, 14, 15, 21)}
    assert set(drawn("at 07:30")) >= {"at 06:30", "at 08:30", "at 10:30", "at 07:29", "at 07:31", "at 30:07"}
    assert all(len(str(one)) == len("at 07:30") for one in drawn("at 07:30"))


def test_neighbouring_words_or_numbers_of_a_text_are_exchanged():
    assert {"fox red ran", "red ran fox"} <= set(drawn("red fox ran"))
    assert "2 1" in drawn("1 2")
    assert "5 five" not in drawn("five 5")


def test_words_are_replaced_by_similar_words_of_the_suite():
    near = ["the red fox", "OLD Elephants and 1 hippopotamus"]
    found = set(drawn("cat sat", near))
    assert {"the sat", "red sat", "cat fox"} <= found
    assert not [one for one in found if {"OLD", "Elephants", "hippopotamus"} & set(str(one).split())]


def test_words_from_further_away_are_taken_only_where_those_nearby_give_few():
    assert {"hen sat", "cat hen"} <= set(drawn("cat sat", [], ["hen"]))
    near = ["the red fox ran off"]
    assert not [one for one in drawn("cat sat", near, ["hen"]) if "hen" in str(one).split() and one != "hen"]


def test_letters_are_replaced_only_where_there_is_little_else():
    pool = ["red fox", "old dog", "new cat", "big cow"]
    words = {word for text in pool for word in text.split()}
    assert all(set(str(one).split()) <= words for one in drawn("red fox", pool))
    alone = {str(one) for one in drawn("ab", ["ab", "uvwxyz12345"])}
    assert alone
    assert all(len(one) == 2 and sum(a != b for a, b in zip(one, "ab", strict=True)) == 1 for one in alone)
    assert all(set(one) <= set("abuvwxyz") for one in alone)


@each_row(
    "value, like, odd",
    [
        (3, [13], [14, -1]),
        (30, [90], [91]),
        (1.0, [11.0], [11.5]),
        ("ab", ["cdefghij"], ["cdefghijk", "c1", "c\nd", "c d", "12"]),
        ("abcdefgh", ["xy"], ["x"]),
        (b"ab", [b"cdefghij"], [b"cdefghijk", b"c1"]),
    ],
)
def test_a_value_from_elsewhere_is_of_the_same_shape(value: Value, like: list[Value], odd: list[Value]):
    for pools in (([*like, *odd], []), ([], [*like, *odd])):
        found = drawn(value, *pools)
        assert set(like) <= set(found)
        assert not set(odd) & set(found)


@each_row("value", [1, 1.5, "one 1", b"one 1"])
def test_all_others_are_of_the_same_type_and_come_once(value: Value):
    pool: list[Value] = [True, 2, 2, 2.5, 2.5, "two 2", "two 2", b"two 2", value, value]
    found = drawn(value, pool, pool)
    assert {type(one) for one in found} == {type(value)}
    assert len(set(found)) == len(found) > 1
    assert value not in found


def share(of: Value, value: Value, near: Sequence[Value], wide: Sequence[Value]) -> float:
    """How often one value is drawn first."""
    return sum(drawn(value, near, wide, seed)[0] == of for seed in range(400)) / 400


def test_drawn_values_are_as_frequent_elsewhere_as_the_true_value():
    alone = share(14, 5, [5, 14], [5, 14])
    assert share(14, 5, [5, 5, 14], [5, 5, 14]) > 0.5 > 2 * alone
    assert share(14, 5, [5], [5, 5, 14]) > 1.5 * share(14, 5, [5], [5, 14])
