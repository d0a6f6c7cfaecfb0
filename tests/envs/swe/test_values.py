"""Other values for the constants of tests: near the true ones, and plausible in their place."""

from __future__ import annotations

import random
from collections.abc import Sequence

from agentgym.envs.swe import values
from agentgym.envs.swe.values import Pools, Value, changeable
from tests.rows import each_row


def draw(value: Value, near: Sequence[Value] = (), wide: Sequence[Value] = (), seed: int = 0) -> list[Value]:
    return list(values.others(value, Pools(near, wide), random.Random(seed)))


def test_only_comparable_scalars_are_changeable():
    assert all(map(changeable, (True, 0, 1.5, "", b"")))
    assert not any(map(changeable, (None, float("nan"), 1j, ..., ())))


@each_row(
    "value, expected",
    [
        (True, {False}),
        (0, {1, 2, 3}),
        (2, {0, 1, 3, 4, 5}),
        (19, {16, 17, 18, 20, 21, 22, 91}),
        (20, {17, 18, 19, 21, 22, 23, 10, 30}),
        (100, {97, 98, 99, 101, 102, 103, 90, 110}),
        (2.5, {0.5, 1.5, 3.5, 4.5, 2.3, 2.4, 2.6, 2.7}),
        (0.25, {1.25, 2.25, 0.05, 0.15, 0.35, 0.45, 0.23, 0.24, 0.26, 0.27}),
        (0.125, {1.125, 2.125, 0.105, 0.115, 0.135, 0.145, 0.123, 0.124, 0.126, 0.127}),
    ],
)
def test_numbers_change_by_a_small_step_or_one_digit(value: Value, expected: set[Value]):
    assert set(draw(value)) == expected


@each_row("value", [0.0, 1e-7, 3.14159, 1234.5, 1_000_000.5, 1e20])
def test_changed_fractions_exceed_any_tolerance(value: float):
    assert all(isinstance(other, float) and other >= 0 and abs(other - value) > 1e-3 * value for other in draw(value))


def test_neighbouring_digits_words_and_numbers_are_swapped():
    assert {5467, 4657, 4576} <= set(draw(4567))
    assert {1402, 1024} <= set(draw(1042))
    assert 142 not in draw(1042)
    assert {"fox red ran", "red ran fox"} <= set(draw("red fox ran"))
    assert "2 1" in draw("1 2")
    assert "5 five" not in draw("five 5")


def test_numbers_in_a_text_keep_their_width():
    assert set(draw("chapter 12")) == {f"chapter {number}" for number in (10, 11, 13, 14, 15, 21)}
    assert set(draw("at 07:30")) >= {"at 06:30", "at 08:30", "at 10:30", "at 07:29", "at 07:31", "at 30:07"}
    assert all(len(str(other)) == len("at 07:30") for other in draw("at 07:30"))


def test_words_are_replaced_by_similar_words_of_the_suite():
    near = ["the red fox", "OLD Elephants and 1 hippopotamus"]
    texts = set(map(str, draw("cat sat", near)))
    assert {"the sat", "red sat", "cat fox"} <= texts
    assert not [text for text in texts if {"OLD", "Elephants", "hippopotamus"} & set(text.split())]


def test_distant_words_are_used_only_if_nearby_ones_are_few():
    assert {"hen sat", "cat hen"} <= set(draw("cat sat", [], ["hen"]))
    near = ["the red fox ran off"]
    assert not [text for text in draw("cat sat", near, ["hen"]) if "hen" in str(text).split() and text != "hen"]


def test_letters_are_replaced_only_if_little_else_can_change():
    pool = ["red fox", "old dog", "new cat", "big cow"]
    words = {word for text in pool for word in text.split()}
    assert all(set(str(text).split()) <= words for text in draw("red fox", pool))
    alone = {str(text) for text in draw("ab", ["ab", "uvwxyz12345"])}
    assert alone
    assert all(len(text) == 2 and sum(a != b for a, b in zip(text, "ab", strict=True)) == 1 for text in alone)
    assert all(set(text) <= set("abuvwxyz") for text in alone)


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
def test_values_from_elsewhere_have_the_same_shape(value: Value, like: list[Value], odd: list[Value]):
    for pools in (([*like, *odd], []), ([], [*like, *odd])):
        others = set(draw(value, *pools))
        assert set(like) <= others
        assert not set(odd) & others


@each_row("value", [1, 1.5, "one 1", b"one 1"])
def test_other_values_have_the_same_type_and_are_distinct(value: Value):
    pool: list[Value] = [True, 2, 2, 2.5, 2.5, "two 2", "two 2", b"two 2", value, value]
    others = draw(value, pool, pool)
    assert {type(other) for other in others} == {type(value)}
    assert len({*others, value}) == len(others) + 1 > 2


def share(of: Value, value: Value, near: Sequence[Value], wide: Sequence[Value]) -> float:
    """Return the share of seeds that draw a value first."""
    return sum(draw(value, near, wide, seed)[0] == of for seed in range(400)) / 400


def test_frequency_of_drawn_values_matches_the_true_value():
    alone = share(14, 5, [5, 14], [5, 14])
    assert share(14, 5, [5, 5, 14], [5, 5, 14]) > 0.5 > 2 * alone
    assert share(14, 5, [5], [5, 5, 14]) > 1.5 * share(14, 5, [5], [5, 14])
