"""Tests with withheld expected values: correct code passes them, and their process does not contain the values."""

from __future__ import annotations

import ast
import copy
import json
import random
import unittest
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from itertools import islice
from textwrap import dedent
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from agentgym.envs.swe.disguise import functions_of
from agentgym.envs.swe.forms import ChangedForm
from agentgym.envs.swe.grading import Evidence
from agentgym.envs.swe.inside import STAND_IN
from agentgym.envs.swe.judge import ChangedTestResult, TestRun
from agentgym.envs.swe.notes import MAX_CLASSES, ComparisonNote, Raised, as_expected, read_notes, value_of
from agentgym.envs.swe.perturb import FunctionChange, change, proposals
from agentgym.envs.swe.stand_in import MAX_CHARS, MAX_DEPTH, MAX_MESSAGE, MAX_NOTES, MAX_PARTS, encoded, stand_ins
from agentgym.envs.swe.withholding import decided, withheld
from tests.rows import each_row


def form_of(source: str) -> tuple[ast.FunctionDef, ChangedForm]:
    """Return the first test of a source without its expected values, and its form."""
    node = copy.deepcopy(next(iter(functions_of(dedent(source)).values())))
    assert isinstance(node, ast.FunctionDef)
    edits, row = withheld(node)
    change(node, edits)
    return node, ChangedForm(FunctionChange("t.py", "", node.name, edits, row))


def text_without(source: str) -> str:
    """Return a test without its expected values, with a question mark for each stand-in."""
    node, _ = form_of(source)
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == STAND_IN:
            part.func.id, part.args = "Q", []
    return ast.unparse(ast.fix_missing_locations(node)).partition("\n")[2].replace("Q()", "?").strip()


@each_row(
    "body, without",
    [
        ("assert f(3) == 4", "assert f(3) == ?"),
        ("assert [1, 'x'] == f(3)", "assert ? == f(3)"),
        ("assert f(3) == Fraction(1, 2)", "assert f(3) == ?"),
        ("self.assertEqual(f(3), {'a': -1})", "self.assertEqual(f(3), ?)"),
        ("assert f(3) != 4", "assert ? == (not not f(3) == 4)"),
        ("assert f(3)", "assert ? == (not not f(3))"),
        ("assert not f(3)", "assert ? == (not not f(3))"),
        ("assert f(3) == 4 and g(3) == 5", "assert f(3) == ? and g(3) == ?"),
        ("wanted = [4]\n    assert f(3) == wanted", "wanted = ?\n    assert f(3) == wanted"),
        ("for a in [1, 2]:\n        assert f(a) == 7", "for a in [1, 2]:\n        assert f(a) == ?"),
        ("with raises(KeyError, match='no x'):\n        f(3)", "with ?:\n        f(3)"),
        ("with raises(KeyError) as told:\n        f(3)", "with ? as told:\n        f(3)"),
        ("n = 4\n    assert f(n) == n", "n = 4\n    assert ? == (not not f(n) == n)"),
        ("assert f(3) == approx(4)", "assert ? == (not not f(3) == approx(4))"),
        (
            "assert f(1) == 2\n    if f(2):\n        return\n    assert f(3) == 4",
            "assert f(1) == ?\n    if f(2):\n        return\n    assert f(3) == 4",
        ),
    ],
)
def test_expected_values_are_withheld(body: str, without: str):
    assert text_without(f"def test():\n    {body}\n") == without


@each_row(
    "body",
    [
        "if f(3):\n        assert f(4) == 5",  # code under test decides whether the comparison is made
        "for a in f(3):\n        assert a == 5",
        "try:\n        f(3)\n    except KeyError:\n        assert g() == 5",
        "with raises(KeyError, match='(a+)+b'):\n        f(3)",  # costly on a text that is made for it
        "with raises(KeyError, match=text()):\n        f(3)",
        "check(f(3), 4)",
    ],
)
def test_conditional_or_unsafe_comparisons_are_unchanged(body: str):
    assert form_of(f"def test():\n    {body}\n")[1].change.edits == ()


def test_parametrised_values_are_withheld_unless_case_names_reveal_them():
    source = """\
        @pytest.mark.parametrize(("text", "size"), [("abc", 3), ("abcd", 4)]{more})
        def test(text, size):
            assert f(text) == size
        """
    _, form = form_of(source.format(more=""))
    assert sorted(map(str, form.expected.values())) == ["3", "4"]
    assert form.change.row is not None, "such cases are asked for by number: their ids would say what is in them"
    _, form = form_of(source.format(more=', ids=["gives 3", "gives 4"]'))
    assert list(form.expected.values()) == [True]


def run(source: str, space: dict[str, Any]) -> tuple[ChangedForm, tuple[ComparisonNote, ...], bool]:
    """Run a test without its expected values; return its form, its notes, and whether it passed."""
    node, form = form_of(source)
    stand_in, collect_notes = stand_ins()
    passed = passes(node, {**space, STAND_IN: stand_in})
    return form, read_notes(collect_notes()), passed


def fail(error: Exception) -> Any:
    raise error


@each_row(
    "body, right, wrong",
    [
        ("assert f() == 4", lambda: 4, lambda: 5),
        ("assert f() == 4", lambda: 4.0, lambda: "4"),
        ("assert f() == {'a': [1, (2, 3)]}", lambda: {"a": [1, (2, 3)]}, lambda: {"a": [1, [2, 3]]}),
        ("assert f() == {1: 'x'}", lambda: MappingProxyType({1: "x"}), lambda: MappingProxyType({1: "y"})),
        ("assert f() == {3, 4}", lambda: frozenset((4, 3)), lambda: [3, 4]),
        ("assert f() != 4", lambda: 5, lambda: 4),
        ("assert f() is None", lambda: None, lambda: 0),
        ("assert not f()", lambda: [], lambda: [0]),
        ("assert f() == b'a'", lambda: bytearray(b"a"), lambda: "a"),
        ("assert f() == 'a'", lambda: "a", lambda: "a "),
        ("with raises(KeyError):\n        f()", lambda: fail(KeyError()), lambda: 0),
        ("with raises(LookupError):\n        f()", lambda: fail(KeyError()), lambda: fail(ValueError())),
        ("with raises(KeyError, match='no x'):\n        f()", lambda: fail(KeyError("no x")), lambda: fail(KeyError())),
        (
            "with raises(KeyError) as told:\n        f()\n    assert told.value.args == (1,)",
            lambda: fail(KeyError(1)),
            lambda: fail(KeyError(2)),
        ),
    ],
)
def test_only_correct_code_compares_the_withheld_values(body: str, right: Callable[[], Any], wrong: Callable[[], Any]):
    source = f"def test():\n    {body}\n"
    form, notes, passed = run(source, {"f": right})
    assert passed
    assert as_expected(notes, form.expected, dict.fromkeys(form.expected, 1))
    form, notes, _ = run(source, {"f": wrong})
    assert not as_expected(notes, form.expected, dict.fromkeys(form.expected, 1))


@each_row(
    "body, contradictions",
    [
        ("assert f(3) == 4", True),
        ("self.assertEqual(f(3), 4)", True),
        ("assert f(3) > 2", True),
        ("assert not f(3)", True),
        ("wanted = [1, 2]\n    assert f(3) == wanted", True),
        ("for a in f(3):\n        assert a == 4", False),  # there may be nothing to look at
        ("if f(3):\n        assert f(2) == 4", False),
        ("with raises(ValueError):\n        f(3)", False),  # there are classes of both kinds
        ("f(3, 4)", False),
    ],
)
def test_no_code_passes_both_a_test_and_a_contradicting_change(body: str, contradictions: bool):
    source = f"def test(self=case):\n    {body}\n"
    node = functions_of(source)["", "test"]
    certain = decided(node)
    changes = [edits for edits, _ in islice(proposals(node, source, random.Random(0)), 60)]
    contradicting = [edits for edits in changes if any(edit.number in certain for edit in edits)]
    assert bool(contradicting) is contradictions
    for edits in contradicting:
        changed = copy.deepcopy(node)
        change(changed, edits)
        assert not any(passes(node, {"f": code}) and passes(changed, {"f": code}) for code in CODES)


class Both(ValueError, TypeError, KeyError):
    """An exception of many kinds."""


CODES: list[Callable[..., Any]] = [
    *(
        lambda *_, value=value: value
        for value in (*range(-3, 12), True, None, "", "x", 4.0, [], [4], [1, 2], [2, 1], ())
    ),
    lambda *_: fail(Both()),
    lambda *_: fail(ValueError()),
    lambda value, *_: value,
    lambda value, *_: [value, 4],
]


def passes(node: ast.AST, names: dict[str, Any]) -> bool:
    """Whether a test passes with these names in its module."""
    module = ast.fix_missing_locations(ast.Module([copy.deepcopy(node)], []))  # type: ignore[list-item]
    space = {**names, "raises": pytest.raises, "pytest": pytest, "case": unittest.TestCase()}
    exec(compile(module, "t.py", "exec"), space)
    try:
        space["test"]()
    except BaseException:
        return False
    return True


class Colour(IntEnum):
    RED = 1


class Pair(NamedTuple):
    first: object
    second: object


class Text(str):
    __slots__ = ()


@each_row(
    "value",
    [
        None, True, 0, -(10**40), 1.5, float("inf"), -0.0, 1 + 2j, "", "ä\ud800", b"\x00", [], (), set(), {},
        [1, [2, (3, {4: {5}})]], {(1, 2): [None]}, Decimal("1.10"), Fraction(-1, 3), date(2024, 2, 29),
        datetime(2024, 2, 29, 1, 2, 3, 4), timedelta(-1, 5, 7), Colour.RED, Pair(1, "x"), Text("x"), {1: 2}.keys(),
    ],
)  # fmt: skip
def test_plain_values_survive_a_note(value: object):
    (note,) = read_notes(json.dumps([[3, encoded(value)]]))
    assert (note.number, note.plain) == (3, True)
    assert note.equals(value)


class Sly:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


LOOP: list[Any] = []
LOOP.append(LOOP)


@each_row("value", [Sly(), [Sly()], object(), LOOP, "x" * (MAX_CHARS + 1), [0] * 10**5, lambda: 1])
def test_values_other_than_plain_data_equal_nothing(value: object):
    (note,) = read_notes(json.dumps([[3, encoded(value)]]))
    assert not note.plain
    assert not any(note.equals(expected) for expected in (None, value, [], 0))


def nested(depth: int, wrap: Callable[[object], object]) -> object:
    """Return a number inside the given number of nested containers."""
    value: object = 1
    for _ in range(depth):
        value = wrap(value)
    return value


def is_noted(value: object) -> bool:
    (note,) = read_notes(json.dumps([[3, encoded(value)]]))
    return note.plain and note.equals(value)


def test_notes_are_bounded_in_depth_parts_and_characters():
    for wrap in (lambda item: [item], lambda item: (item,)):
        assert is_noted(nested(MAX_DEPTH, wrap))
        assert not is_noted(nested(MAX_DEPTH + 1, wrap))
    for wrap in (lambda item: {2: item}, lambda item: MappingProxyType({2: item})):  # an item is a level of its own
        assert is_noted(nested(MAX_DEPTH // 2, wrap))
        assert not is_noted(nested(MAX_DEPTH // 2 + 1, wrap))
    assert is_noted([0] * (MAX_PARTS - 1))
    assert not is_noted([0] * MAX_PARTS)
    assert is_noted(["x" * (MAX_CHARS // 2)] * 2)
    assert not is_noted(["x" * (MAX_CHARS // 2)] * 2 + ["x"])


def test_number_of_notes_and_length_of_messages_are_limited():
    stand_in, collect_notes = stand_ins()
    assert all(stand_in(1) == number for number in range(MAX_NOTES + 50))
    assert len(read_notes(collect_notes())) == MAX_NOTES
    assert collect_notes() == ""
    for length in (MAX_MESSAGE, MAX_MESSAGE + 1):
        with stand_in(1):
            raise ValueError("x" * length)
    for note in read_notes(collect_notes()):
        assert note.equals(Raised("ValueError", "x" * 50))


def test_stand_in_catches_only_exceptions_and_is_equal_but_unhashable():
    stand_in, collect_notes = stand_ins()
    with pytest.raises(KeyboardInterrupt), stand_in(1):
        raise KeyboardInterrupt
    assert collect_notes() == ""
    with stand_in(1) as caught:
        raise KeyError(5)
    assert caught.value.args == caught.exception.args == (5,)
    assert (stand_in(1) != 5) is False
    with pytest.raises(TypeError):
        hash(stand_in(1))


_REFUSALS = "malformed notes|too deep|Expecting|Invalid|unpack|Unterminated|invalid"


@each_row(
    "text",
    ["{", "5", '{"a": 1}', "[[]]", '[["x", null]]', '[[1, ["int", 5]]]', '[[1, ["no", "x"]]]', '[[1, ["list", 5]]]',
     '[[1, ["Decimal", "x"]]]', '[[1, ["Fraction", "1 0"]]]', "[" * 9000,
     "[[1, " + '["list", [' * 50 + "]]" * 50 + "]]"],
)  # fmt: skip
def test_malformed_notes_are_refused(text: str):
    with pytest.raises(ValueError, match=_REFUSALS):
        read_notes(text)


def test_notes_must_match_the_expected_values_and_counts():
    expected, four = {7: 4}, ComparisonNote(7, 4)
    assert as_expected([four, four], expected, {7: 2})
    assert as_expected([four, four, four], expected, {7: 2})
    assert not as_expected([four], expected, {7: 2})
    assert not as_expected([], expected, {7: 1})
    assert not as_expected([four, ComparisonNote(7, 5)], expected, {7: 1})
    assert not as_expected([four, ComparisonNote(8, 4)], expected, {7: 1})


def test_exceptions_of_too_many_classes_or_malformed_notes_match_nothing():
    kinds = ["KeyError", *(f"Error{number}" for number in range(MAX_CLASSES))]
    assert ComparisonNote(1, [kinds[:3], "no x"]).equals(Raised("KeyError", "no"))
    assert not ComparisonNote(1, [kinds, "no x"]).equals(Raised("KeyError", "no"))
    assert not ComparisonNote(1, [["KeyError"], "x"]).equals(Raised("KeyError", "no"))
    for malformed in (["KeyError"], [["KeyError"]], [["KeyError"], "x", 1], (["KeyError"], "x"), "KeyError", 5):
        assert not ComparisonNote(1, malformed).equals(Raised("KeyError"))


@each_row("text", ["f()", "x", "1 +", "[x]", "{**a}", "open('x')", "__import__('os')", "f'{x}'"])
def test_only_literals_and_well_known_types_have_a_value(text: str):
    with pytest.raises(ValueError, match=r"not a plain value|malformed"):
        value_of(text)


def evidence(status: str, *notes: ComparisonNote) -> Evidence:
    form = ChangedForm(form_of("def test_a():\n    assert f() == 4\n")[1].change)
    form = replace(form, notes={"": dict.fromkeys(form.expected, 1)})
    true = TestRun({"t.py::test_a": "passed"})
    own = tuple(replace(note, number=next(iter(form.expected))) for note in notes)
    return Evidence([true, TestRun({}, {"t.py::test_a": ChangedTestResult(form, "", status, "", own)})], complete=True)


def test_withholding_form_convinces_only_with_the_right_values():
    assert evidence("passed", ComparisonNote(0, 4)).convinces("t.py::test_a")
    assert not evidence("passed", ComparisonNote(0, 5)).convinces("t.py::test_a")
    assert not evidence("passed").convinces("t.py::test_a")
    assert not evidence("failed", ComparisonNote(0, 4)).convinces("t.py::test_a")
    assert evidence("passed", ComparisonNote(0, 5)).signs() == [], "it is no sign of tampering"
