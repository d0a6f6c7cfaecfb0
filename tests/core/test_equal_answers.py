"""Equal answers: the table of judged answers, and what a number, a quantity, a date and a text are."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from agentgym.core.answers.cells import common_rows, same_rows
from agentgym.core.answers.dates import Day, read_date
from agentgym.core.answers.decisions import DecisionRule
from agentgym.core.answers.numbers import Single, is_rounded, read_number, read_quantity, same_number
from agentgym.core.answers.texts import fenced, fold, without_marks
from agentgym.core.answers.units import is_named, same_unit
from agentgym.core.answers.written import fewest_decimals, number_decision, text_decision
from benchmarks.answers_right import OFFICIAL, grade, read_table

TABLE = read_table()


def test_the_graders_agree_with_the_table_of_judged_answers():
    assert [row for row in TABLE if grade(row).equal is not row.is_right] == []
    assert len(TABLE) >= 400
    for kind, rules in OFFICIAL.items():
        own = [row for row in TABLE if row.kind == kind]
        assert {row.is_right for row in own} == {True, False}
        assert all(any(rule(row) for row in own) for rule in rules.values()), kind


NAN, INF = float("nan"), float("inf")
NUMBERS: list[tuple[Any, Any, bool]] = [
    (0.1 + 0.2, 0.3, True), (1.5 * (1 + 0.9e-9), 1.5, True), (1.5 * (1 + 1.1e-9), 1.5, False),
    (0.0, 0.9e-9, True), (0.0, 1.1e-9, False), (1e-10, 2e-10, False), (-0.0, 0, True),
    # Whole numbers, decimals and fractions are exact.
    (2**53 + 1, 2**53, False), (2**53 + 1, float(2**53), False), (2**53, float(2**53), True), (2**60, 2.0**60, True),
    (Decimal("0.1"), Fraction(1, 10), True), (Decimal("20.10"), Decimal("20.1"), True), (Decimal("7"), 7, True),
    (Decimal("40000120.10"), Decimal("40000120.11"), False), (Decimal("40000120.10"), 40000120.1, True),
    (Fraction(1, 3), 1 / 3, True), (10**400, 1e300, False), (10**400, INF, False), (10**400, 10**400, True),
    # Different whole numbers are never equal, however small their share of difference is.
    (1_700_000_000.0, 1_700_000_001.0, False), (1_700_000_000, 1_700_000_001.0, False), (4e9 + 0.4, 4 * 10**9, True),
    (Single(0.1), 0.100001, False), (Single(0.1), 0.10000005, True), (Single(2**24), 2**24 - 1, False),
    (NAN, NAN, True), (NAN, 1.0, False), (INF, INF, True), (INF, -INF, False), (Decimal("sNaN"), 1.0, False),
    (Decimal("1e400"), INF, False), (Decimal("NaN"), NAN, True), (Decimal("0.5"), Fraction(1, 2), True),
]  # fmt: skip


def test_numbers_are_equal_by_value_and_never_merge_whole_ones():
    for left, right, equal in NUMBERS:
        assert same_number(left, right) is same_number(right, left) is equal, (left, right)


ROUNDED: list[tuple[Any, Any, int, int | None, bool]] = [
    (3.33, 10 / 3, 2, None, True), (3.34, 10 / 3, 2, None, False), (3.3, 3.3012, 2, None, True),
    (3, 3.004, 2, None, False),
    (3.0, 3.004, 2, None, True), (3.0, 3.006, 2, None, False), (0.0, 0.004, 2, None, False), (3, 3.4, 0, None, True),
    (Decimal("20.10"), Decimal("20.105"), 2, None, True), (Decimal("20.11"), Decimal("20.105"), 2, None, True),
    (Decimal("3.3"), 10 / 3, 2, 1, False), (Decimal("3.3"), 10 / 3, 1, 1, True), (3.33, 10 / 3, 4, None, False),
    (3.3333, 10 / 3, 2, None, True), (3.334, 10 / 3, 2, None, False), (INF, 1.0, 2, None, False),
]  # fmt: skip


def test_a_rounded_number_keeps_the_fewest_decimals():
    assert [row for row in ROUNDED if is_rounded(*row[:4]) is not row[4]] == []
    asked = {
        "to 3 decimals": 3,
        "with one decimal place": 1,
        "to the nearest cent": 2,
        "nearest whole number": 0,
        "?": 2,
    }
    assert {question: fewest_decimals(question) for question in asked} == asked
    assert not number_decision("3.33", 10 / 3)
    assert number_decision("3.33", 10 / 3, fewest=2) == (True, DecisionRule.ROUNDED)


READ: dict[str, Any] = {
    "1,203,000": 1_203_000, "9007199254740993": 9007199254740993, "−5": -5, "１２": 12, "1e3": 1000,
    "1.50": Decimal("1.5"),
    "3/4": Fraction(3, 4), "2 1/2": Fraction(5, 2), "seventy-eight": 78, "one hundred and five": 105,
    "a thousand": 1000,
    "two million three hundred thousand": 2_300_000, "2.5 million": 2_500_000, "minus two": -2, ".5": Decimal("0.5"),
    **dict.fromkeys(("3,5", "12,34", "1,2345", ",123", "1,,000", "1.2.3", "10:30", "3-4", "007", "1/2/2003", "- 5")),
    **dict.fromkeys(("", "-", "x", "hundred", "five or six", "5 or 6", "5 and a half", "nan", "1_000", "--5")),
    **dict.fromkeys(("1" * 1001, "twenty eleven", "nineteen eighty-four")),
}  # fmt: skip


def test_a_number_is_read_whole_or_not_at_all():
    assert {text: read_number(text) for text in READ} == READ
    assert read_quantity("$-2,125.50") == (Decimal("-2125.50"), 2, "$")
    assert read_quantity("78 years old.") == (78, 0, "years old")
    digits = "0." + "123456789" * 5
    assert read_number(f"-{digits}") == Decimal(f"-{digits}"), "no digit is rounded away"
    assert not number_decision("9" * 400 + "/7", 1.5, fewest=2)


UNITS: list[tuple[str, str, str, bool]] = [
    ("years", "", "How many years?", True), ("years", "", "How many months?", False),
    ("years old", "", "How old?", True),
    ("", "km", "How many kilometres?", True), ("km", "kilometers", "?", True), ("km", "miles", "km or miles?", False),
    ("%", "", "What percentage?", True), ("percent", "%", "?", True), ("%", "$", "?", False),
    ("$", "", "What price?", True),
    ("euros", "", "How many dollars does it cost?", False), ("boxes", "box", "?", True),
    ("children", "child", "?", True),
    ("mph", "miles per hour", "?", True), ("cm^2", "", "How many cm²?", True), ("cm", "", "How many cm²?", False),
    ("people", "", "What is its population?", True), ("°C", "", "How many degrees Celsius?", True),
    ("men bite dogs", "dogs bite men", "Do men or dogs bite?", False), ("seconds", "", "What is Ann's score?", False),
]  # fmt: skip


def test_units_agree_if_they_are_the_same_or_the_question_names_them():
    assert [row for row in UNITS if (same_unit(*row[:2]) or is_named(*row[:3])) is not row[3]] == []


DATES: dict[str, tuple[int | None, int, int | None] | None] = {
    **dict.fromkeys(("October 13th 1897", "13 October 1897", "1897-10-13", "Wed, 13 Oct. 1897", "13/10/1897"),
    (1897, 10, 13)),
    "the 4th of May": (None, 5, 4), "May 1904": (1904, 5, None),
    **dict.fromkeys(("4/5/2020", "30 February 2020", "1897", "13", "2020-13-01", "May", "1 May or 2021", "x" * 99)),
    **dict.fromkeys(("2020-05-00", "0000-01-01")),
}  # fmt: skip


def test_a_date_is_read_in_every_unambiguous_form():
    assert {text: date and date[:3] for text, date in ((text, read_date(text)) for text in DATES)} == DATES
    assert read_date("2024-02-29T00:00") == Day(2024, 2, 29)
    assert read_date("2024-02-29 08:30:00") == read_date("29 Feb 2024, 8:30 am") != read_date("29 Feb 2024, 8:30 pm")
    assert read_date("29 Feb 2024 25:00") is None


def test_folding_keeps_letters_and_merges_typography():
    assert fold("“Ａ–Ｚ”　l’été…\u200b") == '"A-Z" l\'été...'
    assert fold("e\u0301") == "é" != fold("e")
    assert fold("東京、大阪。") == "東京,大阪."
    for answer, rule in (("a–b", DecisionRule.TYPOGRAPHY), ("a-b", DecisionRule.SAME), ("a_b", DecisionRule.OTHER)):
        assert text_decision(answer, "a-b").rule is rule
    assert text_decision("Cafe\u0301", "Café").rule is DecisionRule.SAME
    assert text_decision("4 May 2020", "2020-05-04").rule is DecisionRule.DATE
    assert text_decision("1/2", "0.5") == text_decision("1.5 million", "1.5", "How many million?")
    assert text_decision("1/2", "0.5").rule is DecisionRule.NUMBER
    assert not text_decision("1.10", "1.1"), "it may be a version"


@pytest.mark.parametrize(
    "marked", ["```sql\nSELECT 1\n```", "``` \nSELECT 1```", "```SELECT 1```", "`SELECT 1`", " SELECT 1 "]
)
def test_the_marks_around_an_answer_are_removed(marked: str):
    assert without_marks(marked) == "SELECT 1"
    assert fenced(f"So:\n{marked}\nDone.") == (["SELECT 1"] if "```" in marked else [])
    assert without_marks(f"```\n{marked.strip('`')}").endswith("SELECT 1"), "an open fence is a fence"


def test_rows_are_paired_as_well_as_possible():
    rows, golds = [(2.5, 1.0), (2.5, 1.004)], [(2.504, 1.0), (2.5, 1.0)]
    assert common_rows(rows, golds, frozenset({0, 1}), 2) == 1
    assert common_rows([(0.5,), (0.51,)], [(0.512,), (0.504,)], frozenset({0}), 2) == 2
    assert same_rows([(1, 0.3), (2, "x")], [(2, "x"), (1, 0.1 + 0.2)])
    assert not same_rows([(1, 0.3)], [(1, 0.3), (1, 0.3)])
    assert not same_rows([(1,)], [(1, 1)])
