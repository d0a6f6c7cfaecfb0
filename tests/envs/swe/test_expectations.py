"""Expected values, inputs and conditions of a test function."""

from __future__ import annotations

import ast
from itertools import product
from textwrap import dedent

from agentgym.envs.swe.expectations import Rank, affirmed, constants, opposite_of, parametrised, ranked, set_opposite
from tests.rows import each_row

EXPECTED, BUILT, ASSERTED, RAISES, OPPOSITE, INPUT = Rank


def function(source: str) -> ast.FunctionDef:
    (node,) = ast.parse(dedent(source)).body
    assert isinstance(node, ast.FunctionDef)
    return node


def ranks(source: str) -> dict[str, Rank]:
    """Return the rank of each changeable node of a test, by its text."""
    node = function(source)
    nodes = list(ast.walk(node))
    return {ast.unparse(nodes[place.number]): place.rank for place in ranked(node)}


@each_row(
    "body, expected",
    [
        ("assert f(1) == 2", {"2": EXPECTED, "1": INPUT}),
        ("assert 2 == f(1)", {"2": EXPECTED, "1": INPUT}),
        ("assert f(1) == -2", {"2": EXPECTED, "1": INPUT}),
        ("assert 1 == 2", {"2": EXPECTED, "1": ASSERTED}),
        ("assert f(1) == [2, (3, {4})]", {"2": EXPECTED, "3": EXPECTED, "4": EXPECTED, "1": INPUT}),
        ("assert f(1) == {2: 3, **g}", {"1": INPUT, "2": ASSERTED, "3": ASSERTED}),
        ("assert f(1) == {2: 3}", {"2": EXPECTED, "3": EXPECTED, "1": INPUT}),
        ("assert f(1) == date(2024, month=2)", {"2024": BUILT, "2": BUILT, "1": INPUT}),
        ("assert f(1) == m.Built([2])", {"2": BUILT, "1": INPUT}),
        ("assert f(1) == Built(g(2))", {"2": INPUT, "1": INPUT}),
        ("assert f(1) == g(2)", {"2": INPUT, "1": INPUT}),
        ("assert f(1) == None", {"1": INPUT}),
        ("assert f(1) and g(2) == 3", {"3": EXPECTED, "2": INPUT, "1": INPUT}),
        ("assert f(1) > 2", {"2": ASSERTED, "1": INPUT}),
        ("assert 2 < f(1) < 3", {"2": ASSERTED, "3": ASSERTED, "1": INPUT}),
        ("wanted = 2\n    other = 3\n    assert f(1) == wanted", {"2": EXPECTED, "3": INPUT, "1": INPUT}),
        ("wanted = g(2)\n    assert f(1) == wanted", {"2": INPUT, "1": INPUT}),
        ("a.b = 2\n    assert f(1) == a", {"2": INPUT, "1": INPUT}),
        ("self.assertEqual(f(1), 2, 'told')", {"2": EXPECTED, "'told'": ASSERTED, "1": INPUT}),
        ("self.assertGreater(f(1), 2)", {"2": ASSERTED, "1": INPUT}),
        ("other.assertEqual(f(1), 2)", {"2": INPUT, "1": INPUT}),
        ("self.assertEqual(2)", {"2": ASSERTED}),
        ("with pytest.raises(E, match='a'):\n        f(1)", {"'a'": ASSERTED, "1": INPUT}),
        ("with self.assertRaises((A, B)):\n        f(1)", {"1": INPUT}),
    ],
)
def test_constants_are_ranked_by_their_role(body: str, expected: dict[str, Rank]):
    nodes = ranks(f"def test(self):\n    {body}\n")
    assert {text: rank for text, rank in nodes.items() if rank not in (OPPOSITE, RAISES)} == expected


@each_row(
    "body, rank, texts",
    [
        ("assert f(1)", OPPOSITE, ["assert f(1)"]),
        ("self.assertTrue(f(1))", OPPOSITE, ["self.assertTrue(f(1))"]),
        ("self.assertGreater(f(1), 2)", OPPOSITE, []),
        ("f(1)", OPPOSITE, []),
        ("with raises(E):\n        f(1)", RAISES, []),
        ("with pytest.raises(E):\n        f(1)", RAISES, ["pytest.raises(E)"]),
        ("self.assertRaises(a.E, f, 1)", RAISES, ["self.assertRaises(a.E, f, 1)"]),
        ("with pytest.raises((A, B)):\n        f(1)", RAISES, []),
    ],
)
def test_conditions_and_exceptions_have_ranks_if_they_can_be_changed(body: str, rank: Rank, texts: list[str]):
    assert [text for text, own in ranks(f"def test(self):\n    {body}\n").items() if own is rank] == texts


ROWS = """
    @pytest.mark.parametrize({columns}, {rows})
    def test(given, wanted):
        assert f(given) == wanted
    """


@each_row(
    "columns, rows, expected",
    [
        ("'given, wanted'", "[(1, 2), [3, 4]]", ["2", "4"]),
        ("('given', 'wanted')", "((1, 2), (3, 4))", ["2", "4"]),
        ("['wanted', 'given']", "[(1, 2)]", ["1"]),
        ("'given, wanted'", "[pytest.param(1, 2, id='a')]", ["2"]),
        ("'wanted'", "[1, 2]", ["1", "2"]),
        ("'wanted'", "[pytest.param(1)]", ["1"]),
        ("'wanted'", "[[1, 2]]", ["1", "2"]),
        ("'given, wanted'", "[(1, g(2)), both]", []),
        ("'given, wanted'", "rows", []),
    ],
)
def test_expected_values_in_parametrised_rows_are_ranked(columns: str, rows: str, expected: list[str]):
    nodes = ranks(ROWS.format(columns=columns, rows=rows))
    assert sorted(text for text, rank in nodes.items() if rank is EXPECTED) == expected


@each_row("decorator", ["parametrize", "mark.parametrize('a')", "mark.skipif(a, [1])", "m.parametrize(a, b)"])
def test_only_literal_parametrisations_are_read(decorator: str):
    assert list(parametrised(function(f"@{decorator}\ndef test():\n    pass\n"))) == []


def test_constants_of_one_expectation_are_partners():
    node = function("def test():\n    assert f(0) == [1, 2, 3]\n    assert g() == 4\n")
    nodes = list(ast.walk(node))
    pairs = {
        frozenset(ast.unparse(nodes[number]) for number in (place.number, partner))
        for place in ranked(node)
        for partner in place.partners
    }
    assert pairs == {frozenset("12"), frozenset("13"), frozenset("23")}


def test_constants_exclude_docstrings_and_parts_of_f_strings():
    tree = ast.parse('"""Say 5."""\na = 5\nb = [5, "x", None, True]\nc = f"{a} y {7}"\n')
    assert sorted(map(repr, constants(tree))) == ["'x'", "5", "5", "True"]


@each_row(
    "condition, opposite",
    [
        ("a == b", "a != b"),
        ("a != b", "a == b"),
        ("a < b", "a >= b"),
        ("a <= b", "a > b"),
        ("a > b", "a <= b"),
        ("a >= b", "a < b"),
        ("a is b", "a is not b"),
        ("a is not b", "a is b"),
        ("a in (b, 2)", "a not in (b, 2)"),
        ("a not in (b, 2)", "a in (b, 2)"),
        ("not a", "a"),
        ("a", "not a"),
        ("-a", "not -a"),
        ("0 < a < b", "not 0 < a < b"),
        ("a and b", "not (a and b)"),
    ],
)
def test_opposite_condition_holds_where_the_original_does_not(condition: str, opposite: str):
    (node,) = ast.parse(f"assert {condition}").body
    assert opposite_of(node)
    set_opposite(node)
    assert ast.unparse(node) == f"assert {opposite}"
    for a, b in product(range(4), repeat=2):
        assert bool(eval(condition, {"a": a, "b": b})) is not bool(eval(opposite, {"a": a, "b": b}))
    (statement,) = ast.parse("self.assertTrue(a)").body
    assert isinstance(statement, ast.Expr)
    assert opposite_of(statement.value)
    set_opposite(statement.value)
    assert ast.unparse(statement) == "self.assertFalse(a)"


@each_row(
    "condition, inner, holds",
    [
        ("a", "a", True),
        ("not a", "a", False),
        ("not not a", "a", True),
        ("a != b", "a == b", False),
        ("not a != b", "a == b", True),
        ("a is not b", "a is b", False),
        ("a not in b", "a in b", False),
        ("a == b", "a == b", True),
        ("a != b != c", "a != b != c", True),
        ("-a", "-a", True),
    ],
)
def test_negations_of_a_condition_are_removed(condition: str, inner: str, holds: bool):
    positive, must_be = affirmed(ast.parse(condition, mode="eval").body)
    assert (ast.unparse(positive), must_be) == (inner, holds)
