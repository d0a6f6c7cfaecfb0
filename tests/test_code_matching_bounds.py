"""Where the comparison of code answers changes its mind: tolerances, limits, kinds of numbers."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.envs.code.matching import answer_matches, matches, read_literal
from agentgym.envs.code.verdict import read_cases, share
from agentgym.errors import TaskError, ToolError
from agentgym.task import Task

INF = float("inf")


@pytest.mark.parametrize(
    ("value", "expected", "equal"),
    [
        (1.5 * (1 + 0.9e-6), 1.5, True),
        (1.5 * (1 - 0.9e-6), 1.5, True),
        (1.5 * (1 + 1.2e-6), 1.5, False),
        (0.9e-9, 0.0, True),
        (2e-9, 0.0, False),
        (-1.5, 1.5, False),
        (INF, INF, True),
        (-INF, INF, False),
        (1e300, INF, False),
    ],
)
def test_fractions_may_differ_by_a_millionth(value: float, expected: float, equal: bool):
    assert matches(value, expected) is equal
    assert matches([value], [expected]) is equal


@pytest.mark.parametrize(
    ("value", "expected", "equal"),
    [
        (3, 3.0000001, True),
        (3.0000001, 3, False),
        (3, 3.1, False),
        (5, INF, False),
        (10**400, INF, False),
        (INF, 10**400, False),
        (0, 1e-10, True),
        (10**400, 10**400 + 1, False),
    ],
)
def test_whole_numbers_are_exact_unless_a_fraction_is_expected(value: Any, expected: Any, equal: bool):
    assert matches(value, expected) is equal


@pytest.mark.parametrize(
    ("value", "expected", "equal"),
    [
        (1 + 2j, 1 + 2j, True),
        (1 + 2j, (1 + 1e-9) + 2j, True),
        (1 + 2j, 1 + (2 + 1e-9) * 1j, True),
        (1 + 2j, 1.5 + 2j, False),
        (1 + 2j, 1 + 2.5j, False),
        (1.5, 1.5 + 0j, True),
        (1.5 + 1e-10j, 1.5, True),
        (1.5 + 1j, 1.5, False),
        (2j, "2j", False),
    ],
)
def test_complex_numbers_agree_in_both_parts(value: Any, expected: Any, equal: bool):
    assert matches(value, expected) is equal


@pytest.mark.parametrize(
    ("value", "expected", "equal"),
    [
        ({1.5, 2.5}, {1.5 + 1e-9, 2.5}, True),
        ({1.5, 2.5}, {1.5, 3.5}, False),
        ({1.5}, {1.5, 2.5}, False),
        ({"a", (1, 0.1 + 0.2)}, {"a", (1, 0.3)}, True),
        ({"a", "b"}, {"a", "c"}, False),
        ({1: 0.1 + 0.2}, {1: 0.3}, True),
        ({1: 2, 3: 4}, {1: 2}, False),
        ({}, set(), False),
        ([], (), False),
        ([{1: (2.0, {3})}], [{1: (2, {3.0})}], True),
        ([{1: (2.0, {3})}], [{1: (2, {4})}], False),
        ("ab", ["a", "b"], False),
    ],
)
def test_containers_agree_item_by_item(value: Any, expected: Any, equal: bool):
    assert matches(value, expected) is equal


def test_large_sets_of_numbers_are_compared_too():
    numbers = {i + 0.5 for i in range(600)}
    assert matches(set(numbers), numbers)
    assert not matches({*numbers, 700.5} - {0.5}, numbers)


@pytest.mark.parametrize(("depth", "read"), [(60, True), (61, False)])
def test_a_written_answer_is_read_down_to_sixty_levels(depth: int, read: bool):
    expected: Any = []
    for _ in range(depth - 1):
        expected = [expected]
    assert answer_matches("[" * depth + "]" * depth, expected) is read


def test_brackets_beside_each_other_are_not_levels():
    assert answer_matches("[" + "[], " * 100 + "]", [[]] * 100)


def test_a_written_answer_has_a_greatest_length():
    assert answer_matches("x" * 20_000, "x" * 20_000)
    with pytest.raises(ToolError, match="20001 characters"):
        answer_matches("x" * 20_001, "x" * 20_001)


@pytest.mark.parametrize(
    ("answer", "expected", "right"),
    [
        ("false", False, True),
        ("true", False, False),
        ("null", None, True),
        ("null", 0, False),
        ("(1, 2)", [1, 2], True),
        ("[[1], 2]", ([1], 2), True),
        ("[[1], 3]", ([1], 2), False),
        ("{1: [2]}", {1: (2,)}, True),
        ("{(1, 2)}", {(1, 2)}, True),
        ("a b", " a b ", True),
        ("'5'", 5, False),
        ("5", "5", True),
    ],
)
def test_in_a_written_answer_lists_and_tuples_are_the_same_at_every_depth(answer: str, expected: Any, right: bool):
    assert answer_matches(answer, expected) is right


@pytest.mark.parametrize("text", ["1 +", "open('x')", "(" * 10_000, "{[]: 1}"])
def test_a_task_whose_values_are_no_literals_is_refused_by_name(text: str):
    with pytest.raises(TaskError, match=r"^gold of task 't' is .*not a Python literal"):
        read_literal(text, "gold of task 't'")


def test_cases_are_numbered_from_one():
    task = Task("t", "train", "?")
    good = {"args": "(3,)", "expect": "6"}
    [case] = read_cases(task, "gold", [good])
    assert case.expected == 6
    with pytest.raises(TaskError, match="args of case 2 of gold of task 't'"):
        read_cases(task, "gold", [good, {"args": "oops(", "expect": "6"}])


def test_the_share_of_passed_tests_is_that_of_the_outcome_where_there_are_none():
    assert [share([True, False, False, False], False), share([], True), share([], False)] == [0.25, 1.0, 0.0]
    assert share([False], True) == 0.0
