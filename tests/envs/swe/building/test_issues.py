"""Issues made from failing tests: executed code, with other words and values than the tests."""

from __future__ import annotations

import ast
from functools import cache

import pytest

from agentgym.envs.swe.building.instance import Issue, IssueSecrets, ReportedBug, write_issue
from agentgym.envs.swe.building.issue_text import Fault, fault_of
from agentgym.envs.swe.building.probe import SnippetProbe, SnippetResult
from agentgym.envs.swe.building.reading_tests import snippets_of
from agentgym.envs.swe.building.runner import SubprocessRunner
from agentgym.envs.swe.building.snippet import Snippet
from agentgym.envs.swe.building.symptoms import reveals_secret
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
        ("    result = start", "    result = start.none", "test_total", "'int' object has no attribute 'none'"),
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


@each_row(
    "text, allowed, tells",
    [
        ("x result += value y", "", True),
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
        (UNITTEST, "TestIt::test_it", "values = [1]\ntotal(5)"),
        (TESTS, "test_total", "from sums import total\ntotal([1, 2, 3])"),
    ],
)
def test_snippets_stand_alone(source: str, test: str, code: str) -> None:
    assert code in codes(test, source)


@pytest.mark.real
def test_probe_returns_values_errors_and_calls_of_each_tree_and_snippet() -> None:
    other = faulty("result += value", "result = value")
    values, errors = probe(FILES, other)([("import sums", "sums.total([1, 2])"), ("", "[][1]")])
    assert [result and result.repr for result in values.values()] == ["3", "2"]
    assert [result and result.calls for result in values.values()] == [("total",), ("total",)]
    assert [result and result.raised for result in errors.values()] == ["IndexError", "IndexError"]
    change = ("import sums\nsums.total = len", "sums.total([1, 2, 3])")
    first, second = probe(FILES)([change, ("import sums", "sums.total([1, 2, 3])")])
    assert [item["0"] and item["0"].repr for item in (first, second)] == ["3", "6"]


@pytest.mark.real
def test_probe_stops_an_endless_snippet() -> None:
    endless, after = SnippetProbe(RUN, {"0": FILES}, (".",), ["sums"], 0.2)([("while True: pass", "1"), ("", "2")])
    assert (endless["0"], after["0"] and after["0"].repr) == (None, "2")


@each_row(
    "expected, got, fault",
    [
        (value("[1, 2]"), value("[2, 1]"), Fault.ORDER),
        (value("[1, 2]"), value("[1]"), Fault.MISSING),
        (value("3", "int"), value("4", "int"), Fault.OFF_BY_ONE),
        (value("'a'", "str"), value("None", "NoneType"), Fault.NONE),
        (value("'a'", "str"), SnippetResult(raised="KeyError"), Fault.CRASH),
        (SnippetResult(raised="KeyError"), value("'a'", "str"), Fault.SILENT),
        (SnippetResult(raised="KeyError", message="a"), SnippetResult(raised="KeyError", message="b"), Fault.MESSAGE),
    ],
)
def test_fault_of_two_results(expected: SnippetResult, got: SnippetResult, fault: Fault) -> None:
    assert fault_of(expected, got) is fault
