"""A test that does not hold what it expects: right code passes it, and nothing in its process says what right is."""

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
    """The first test of a source without what it expects, and the form that this is."""
    node = copy.deepcopy(next(iter(functions_of(dedent(source)).values())))
    assert isinstance(node, ast.FunctionDef)
    edits, row = withheld(node)
    change(node, edits)
    return node, ChangedForm(FunctionChange("t.py", "", node.name, edits, row))


def text_without(source: str) -> str:
    """A test without what it expects, with a question mark for each stand-in."""
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
    ],
)
def test_expected_values_are_taken_out_of_a_test(body: str, without: str):
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
def test_inexact_or_conditional_comparisons_are_left_as_they_are(body: str):
    assert form_of(f"def test():\n    {body}\n")[1].change.edits == ()


def test_code_after_a_possible_return_is_left_as_it_is():
    found = text_without("def test():\n    assert f(1) == 2\n    if f(2):\n        return\n    assert f(3) == 4\n")
    assert found.splitlines()[0].strip() == "assert f(1) == ?"
    assert found.splitlines()[-1].strip() == "assert f(3) == 4"


def test_inexact_comparisons_are_made_by_the_test_itself():
    assert "f(3) == pytest.approx(4)" in text_without("def test():\n    assert f(3) == pytest.approx(4)\n")


def test_parametrised_values_are_withheld_unless_the_case_names_say_them():
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


def test_a_name_that_is_used_for_more_keeps_its_value():
    found = text_without("def test():\n    wanted = 4\n    assert f(wanted) == wanted\n")
    assert found == "wanted = 4\n    assert ? == (not not f(wanted) == wanted)"


def run(source: str, space: dict[str, Any]) -> tuple[ChangedForm, tuple[ComparisonNote, ...], bool]:
    """Run a test without what it expects; return its form, what was noted, and whether it passed."""
    node, form = form_of(source)
    made, taken = stand_ins()
    module = ast.fix_missing_locations(ast.Module([node], []))
    namespace = {**space, "raises": pytest.raises, STAND_IN: made}
    exec(compile(module, "t.py", "exec"), namespace)
    try:
        namespace["test"]()
    except Exception:
        return form, read_notes(taken()), False
    return form, read_notes(taken()), True


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
def test_right_code_compares_what_is_withheld_and_wrong_code_something_else(
    body: str, right: Callable[[], Any], wrong: Callable[[], Any]
):
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
def test_no_code_passes_a_test_and_a_change_that_is_said_to_contradict_it(body: str, contradictions: bool):
    source = f"def test(self=case):\n    {body}\n"
    node = functions_of(source)["", "test"]
    certain = decided(node)
    found = [edits for edits, _ in islice(proposals(node, source, random.Random(0)), 60)]
    chosen = [edits for edits in found if any(edit.number in certain for edit in edits)]
    assert bool(chosen) is contradictions
    for edits in chosen:
        changed = copy.deepcopy(node)
        change(changed, edits)
        assert not any(passes(node, code) and passes(changed, code) for code in CODES)


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


def passes(node: ast.AST, code: Callable[..., Any]) -> bool:
    """Whether code passes a test."""
    module = ast.fix_missing_locations(ast.Module([copy.deepcopy(node)], []))  # type: ignore[list-item]
    space = {"f": code, "raises": pytest.raises, "pytest": pytest, "case": unittest.TestCase()}
    exec(compile(module, "t.py", "exec"), space)
    try:
        space["test"]()
    except BaseException:
        return False
    return True


class Colour(IntEnum):
    RED = 1


class Pair(NamedTuple):
    one: object
    two: object


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
def test_plain_values_come_out_of_a_note_as_they_went_in(value: object):
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
def test_values_that_are_no_plain_data_equal_nothing(value: object):
    (note,) = read_notes(json.dumps([[3, encoded(value)]]))
    assert not note.plain
    assert not any(note.equals(expected) for expected in (None, value, [], 0))


def nested(depth: int, wrap: Callable[[object], object]) -> object:
    """Something with so many levels of containers around a number."""
    value: object = 1
    for _ in range(depth):
        value = wrap(value)
    return value


def is_noted(value: object) -> bool:
    (note,) = read_notes(json.dumps([[3, encoded(value)]]))
    return note.plain and note.equals(value)


def test_notes_are_bounded_in_depth_parts_and_characters():
    for wrap in (lambda one: [one], lambda one: (one,)):
        assert is_noted(nested(MAX_DEPTH, wrap))
        assert not is_noted(nested(MAX_DEPTH + 1, wrap))
    for wrap in (lambda one: {2: one}, lambda one: MappingProxyType({2: one})):  # an item is a level of its own
        assert is_noted(nested(MAX_DEPTH // 2, wrap))
        assert not is_noted(nested(MAX_DEPTH // 2 + 1, wrap))
    assert is_noted([0] * (MAX_PARTS - 1))
    assert not is_noted([0] * MAX_PARTS)
    assert is_noted(["x" * (MAX_CHARS // 2)] * 2)
    assert not is_noted(["x" * (MAX_CHARS // 2)] * 2 + ["x"])


def test_of_what_an_exception_says_no_more_is_noted_than_can_be_read():
    made, taken = stand_ins()
    for length in (MAX_MESSAGE, MAX_MESSAGE + 1):
        with made(1):
            raise ValueError("x" * length)
    for note in read_notes(taken()):
        assert note.equals(Raised("ValueError", "x" * 50))


def test_a_stand_in_stops_exceptions_and_nothing_that_ends_a_program():
    made, taken = stand_ins()
    with pytest.raises(KeyboardInterrupt), made(1):
        raise KeyboardInterrupt
    assert taken() == ""
    with made(1) as told:
        raise KeyError(5)
    assert told.value.args == told.exception.args == (5,)


def test_a_stand_in_is_neither_unequal_nor_hashable():
    made, _ = stand_ins()
    assert (made(1) != 5) is False
    with pytest.raises(TypeError):
        hash(made(1))


_REFUSALS = "malformed notes|too deep|Expecting|Invalid|unpack|Unterminated|invalid"


@each_row(
    "text",
    ["{", "5", '{"a": 1}', "[[]]", '[["x", null]]', '[[1, ["int", 5]]]', '[[1, ["no", "x"]]]', '[[1, ["list", 5]]]',
     '[[1, ["Decimal", "x"]]]', '[[1, ["Fraction", "1 0"]]]', "[" * 9000,
     "[[1, " + '["list", [' * 50 + "]]" * 50 + "]]"],
)  # fmt: skip
def test_notes_that_no_stand_in_writes_are_refused(text: str):
    with pytest.raises(ValueError, match=_REFUSALS):
        read_notes(text)


def test_notes_are_read_as_deep_as_they_are_written_and_no_deeper():
    deep = json.dumps([[1, encoded(nested(MAX_DEPTH, lambda one: [one]))]])
    assert len(read_notes(deep)) == 1
    with pytest.raises(ValueError, match="too deep"):
        read_notes(deep.replace('["list"', '["list", [["list"', 1).replace("]]]", "]]]]]", 1))


def test_no_more_is_noted_than_can_be_read():
    made, taken = stand_ins()
    assert all(made(1) == number for number in range(MAX_NOTES + 50))
    assert len(read_notes(taken())) == MAX_NOTES
    assert taken() == ""


def test_notes_must_be_as_many_as_on_right_code_and_of_known_places():
    expected, four = {7: 4}, ComparisonNote(7, 4)
    assert as_expected([four, four], expected, {7: 2})
    assert as_expected([four, four, four], expected, {7: 2})
    assert not as_expected([four], expected, {7: 2})
    assert not as_expected([], expected, {7: 1})
    assert not as_expected([four, ComparisonNote(7, 5)], expected, {7: 1})
    assert not as_expected([four, ComparisonNote(8, 4)], expected, {7: 1})


def test_an_exception_of_every_kind_is_none_of_them():
    kinds = ["KeyError", *(f"Error{number}" for number in range(MAX_CLASSES))]
    assert ComparisonNote(1, [kinds[:3], "no x"]).equals(Raised("KeyError", "no"))
    assert not ComparisonNote(1, [kinds, "no x"]).equals(Raised("KeyError", "no"))
    assert not ComparisonNote(1, [["KeyError"], "x"]).equals(Raised("KeyError", "no"))
    assert not ComparisonNote(1, "KeyError").equals(Raised("KeyError"))


@each_row("noted", [["KeyError"], [["KeyError"]], [["KeyError"], "x", 1], (["KeyError"], "x"), "ab", 5])
def test_malformed_notes_of_exceptions_match_no_exception(noted: object):
    assert not ComparisonNote(1, noted).equals(Raised("KeyError"))


@each_row("text", ["f()", "x", "1 +", "[x]", "{**a}", "open('x')", "__import__('os')", "f'{x}'"])
def test_nothing_but_what_is_written_out_has_a_value(text: str):
    with pytest.raises(ValueError, match=r"not a plain value|malformed"):
        value_of(text)


def seen(status: str, *notes: ComparisonNote) -> Evidence:
    form = ChangedForm(form_of("def test_a():\n    assert f() == 4\n")[1].change)
    form = replace(form, notes={"": dict.fromkeys(form.expected, 1)})
    true = TestRun({"t.py::test_a": "passed"})
    own = tuple(replace(note, number=next(iter(form.expected))) for note in notes)
    return Evidence([true, TestRun({}, {"t.py::test_a": ChangedTestResult(form, "", status, "", own)})], complete=True)


def test_a_test_convinces_only_if_it_comes_to_what_was_withheld():
    assert seen("passed", ComparisonNote(0, 4)).convinces("t.py::test_a")
    assert not seen("passed", ComparisonNote(0, 5)).convinces("t.py::test_a")
    assert not seen("passed").convinces("t.py::test_a")
    assert not seen("failed", ComparisonNote(0, 4)).convinces("t.py::test_a")


def test_passing_without_what_is_expected_is_no_sign_of_tampering():
    assert seen("passed", ComparisonNote(0, 5)).signs() == []
