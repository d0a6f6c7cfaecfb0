"""Issues made from failing tests: executed code, with other words and values than the tests."""

from __future__ import annotations

import ast
import random
from functools import cache

import pytest

from agentgym.envs.swe.building.instance import Issue, IssueSecrets, ReportedBug, write_issue
from agentgym.envs.swe.building.issue_code import double_quoted
from agentgym.envs.swe.building.issue_text import Fault, fault_of, issue_text
from agentgym.envs.swe.building.probe import SnippetProbe, SnippetResult
from agentgym.envs.swe.building.reading_tests import snippets_of
from agentgym.envs.swe.building.runner import SubprocessRunner
from agentgym.envs.swe.building.snippet import Snippet
from agentgym.envs.swe.building.symptoms import Symptom, reveals_secret, shorter
from agentgym.envs.swe.building.vary import variants
from tests.envs.swe.building.package import FILES, TESTS, package
from tests.rows import each_row

RUN = SubprocessRunner()


def snippet(code: str) -> Snippet:
    *setup, last = ast.parse(code).body
    assert isinstance(last, ast.Expr)
    return Snippet(tuple(setup), last.value)


def value(text: str, kind: str = "list") -> SnippetResult:
    return SnippetResult(repr=text, str=text.strip("'"), type=kind)


def codes(test: str, source: str) -> list[str]:
    return [item.code for item in snippets_of(f"tests/t.py::{test}", source, ["total"], "sums")]


def faulty(old: str, new: str) -> dict[str, bytes]:
    text = FILES["sums.py"].decode()
    assert old in text
    return {**FILES, "sums.py": text.replace(old, new, 1).encode()}


@cache
def issue(old: str, new: str, *tests: str, secret: str = "total") -> Issue:
    tree = faulty(old, new)
    bug = ReportedBug("sums.py", tree, [f"tests/test_sums.py::{test}" for test in tests], {})
    return write_issue(package(), tree, [bug], IssueSecrets([old], [secret], ["sums.py"]), RUN, "0")


def probe(*trees: dict[str, bytes]) -> SnippetProbe:
    return SnippetProbe(RUN, {str(number): tree for number, tree in enumerate(trees)}, (".",), ["sums"])


@pytest.mark.real
def test_issue_shows_code_with_other_inputs_than_the_hidden_test() -> None:
    written = issue("        result += value", "        result = value", "test_total")
    assert written.reproducible
    assert "from sums import total" in written.text
    assert "total([" in written.text
    assert "[1, 2, 3]" not in written.text


@pytest.mark.real
@each_row(
    "old, new, test, error",
    [
        (
            "    result = start",
            "    result = start.real.imag.none",
            "test_total",
            "AttributeError: 'int' object has no attribute 'none'",
        ),
        ("    if low > high:", "    if False:", "test_clamp_bounds", "`ValueError"),
    ],
)
def test_issue_names_an_unexpected_or_a_missing_error(old: str, new: str, test: str, error: str) -> None:
    assert error in issue(old, new, test).text


@pytest.mark.real
def test_issue_omits_an_error_message_that_reveals_a_secret() -> None:
    written = issue("    result = start", "    raise OSError('_inner_name')", "test_total", secret="_inner_name")
    assert written.reproducible
    assert "OSError" in written.text
    assert "_inner_name" not in written.text


def test_issue_describes_a_bug_that_no_code_shows() -> None:
    written = issue("result += value", "result = value", "test_that_is_not_there")
    assert not written.reproducible
    assert "sums" in written.text


def test_wording_of_issues_varies_with_the_seed() -> None:
    symptom = Symptom(snippet("from sums import total\ntotal([4, 5])"), value("9", "int"), value("5", "int"))
    texts = [issue_text("sums", "1.0", [symptom], [], random.Random(seed)) for seed in range(20)]
    assert len(set(texts)) > 15
    assert all("total([4, 5])" in text and "9" in text for text in texts)


@each_row(
    "text, allowed, tells",
    [
        ("x result += value y", "", True),
        ("look into sums.py", "", True),
        ("the function _inner is wrong", "", True),
        ("the function _inner is wrong", "_inner(1)", False),
        ("something is wrong", "", False),
    ],
)
def test_secrets_in_a_text_are_detected(text: str, allowed: str, tells: bool) -> None:
    secrets = IssueSecrets(["    result += value", "else:"], ["C._inner"], ["src/sums.py"])
    assert reveals_secret(text, secrets, allowed) is tells


INLINED = """
import pytest
from sums.core import total

@pytest.fixture
def numbers():
    return [1, 2]

def shown(values, **options):
    return str(total(values, **options))

@pytest.mark.parametrize("start", [5])
def test_it(numbers, start):
    assert shown(numbers, start=start) == "8"
"""
LOOP = "def test_it():\n    for x in [1]:\n        assert total([x]) == x\n    assert total([]) == 0"
UNITTEST = """
class TestIt(TestCase):
    def setUp(self):
        self.values = [1]

    def test_it(self):
        self.assertEqual(total(self.values), 1)
        self.assertRaises(TypeError, total, 5)
"""


@each_row(
    "source, test, code",
    [
        (INLINED, "test_it", "from sums import total\nnumbers = [1, 2]\nstr(total(numbers, start=5))"),
        ("def test_it():\n    with pytest.raises(TypeError):\n        total(1)\n", "test_it", "total(1)"),
        (LOOP, "test_it", "for x in [1]:\n    print(total([x]))\ntotal([])"),
        (UNITTEST, "TestIt::test_it", "values = [1]\ntotal(values)"),
        (UNITTEST, "TestIt::test_it", "values = [1]\ntotal(5)"),
        (TESTS, "test_total", "from sums import total\ntotal([1, 2, 3])"),
    ],
)
def test_snippets_stand_alone(source: str, test: str, code: str) -> None:
    assert code in codes(test, source)


def test_variants_change_values_and_keep_the_form() -> None:
    snippets = list(variants(snippet("f([1, 'ab'], k='2024-01-31')[0]"), ["cd"], 30, random.Random(0)))
    assert len(snippets) > 10
    assert all(item.code.startswith("f([") and item.code.endswith("[0]") for item in snippets)
    assert not any("2024-01-31" in item.code and "[1, 'ab']" in item.code for item in snippets)


def test_shorter_snippets_omit_one_part_each() -> None:
    shorter_codes = {item.code for item in shorter(snippet("x = 1\ny = 2\nf([x, 3], k=4)"))}
    assert shorter_codes >= {
        "x = 1\nf([x, 3], k=4)",
        "x = 1\ny = 2\nf([3], k=4)",
        "x = 1\ny = 2\nf([x, 3])",
        "y = 2\nf([1, 3], k=4)",
    }


@pytest.mark.real
def test_probe_returns_values_errors_and_calls_of_each_tree() -> None:
    other = faulty("result += value", "result = value")
    values, errors = probe(FILES, other)([("import sums", "sums.total([1, 2])"), ("", "[][1]")])
    assert [result and result.repr for result in values.values()] == ["3", "2"]
    assert [result and result.calls for result in values.values()] == [("total",), ("total",)]
    assert [result and result.raised for result in errors.values()] == ["IndexError", "IndexError"]


@pytest.mark.real
def test_probe_isolates_snippets() -> None:
    change = ("import sums\nsums.total = len", "sums.total([1, 2, 3])")
    first, second = probe(FILES)([change, ("import sums", "sums.total([1, 2, 3])")])
    assert [item["0"] and item["0"].repr for item in (first, second)] == ["3", "6"]


@pytest.mark.real
def test_probe_stops_an_endless_snippet() -> None:
    endless, after = SnippetProbe(RUN, {"0": FILES}, (".",), ["sums"], 0.2)([("while True: pass", "1"), ("", "2")])
    assert endless["0"] is None
    assert after["0"] is not None
    assert after["0"].repr == "2"


@each_row(
    "expected, got, fault",
    [
        (value("[1, 2]"), value("[2, 1]"), Fault.ORDER),
        (value("[1, 2]"), value("[1]"), Fault.MISSING),
        (value("[1]"), value("[1, 2]"), Fault.EXTRA),
        (value("[1]"), value("[]"), Fault.EMPTY),
        (value("3", "int"), value("4", "int"), Fault.OFF_BY_ONE),
        (value("3", "int"), value("30", "int"), Fault.NUMBER),
        (value("True", "bool"), value("False", "bool"), Fault.TRUTH),
        (value("'a b'", "str"), value("'ab'", "str"), Fault.SPACE),
        (value("'a'", "str"), value("None", "NoneType"), Fault.NONE),
        (value("'a'", "str"), SnippetResult(raised="KeyError"), Fault.CRASH),
        (SnippetResult(raised="KeyError"), value("'a'", "str"), Fault.SILENT),
        (SnippetResult(raised="KeyError"), SnippetResult(raised="OSError"), Fault.OTHER_ERROR),
        (SnippetResult(raised="KeyError", message="a"), SnippetResult(raised="KeyError", message="b"), Fault.MESSAGE),
    ],
)
def test_fault_of_two_results(expected: SnippetResult, got: SnippetResult, fault: Fault) -> None:
    assert fault_of(expected, got) is fault


def test_code_has_double_quotes_where_they_need_no_escapes() -> None:
    code = """f('a', 'say "x"', "it's", '\\n')"""
    assert double_quoted(code) == """f("a", 'say "x"', "it's", "\\n")"""
    assert ast.dump(ast.parse(double_quoted(code))) == ast.dump(ast.parse(code))
