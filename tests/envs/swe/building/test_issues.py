"""Issues made from failing tests: what they show was run, in other words and with other values than the tests."""

from __future__ import annotations

import ast
import random
from functools import cache

import pytest

from agentgym.envs.swe.building.issue import Issue, IssueSecrets, ReportedBug, write_issue
from agentgym.envs.swe.building.issue_code import double_quoted
from agentgym.envs.swe.building.issue_text import issue_text
from agentgym.envs.swe.building.issue_title import Fault, fault_of
from agentgym.envs.swe.building.probe import SnippetProbe, SnippetResult
from agentgym.envs.swe.building.reading_tests import snippets_of
from agentgym.envs.swe.building.runner import SubprocessRunner
from agentgym.envs.swe.building.secrets import reveals_secret
from agentgym.envs.swe.building.shrink import shorter
from agentgym.envs.swe.building.snippet import Snippet
from agentgym.envs.swe.building.symptoms import Symptom
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
def issue(old: str, new: str, *tests: str, told: str = "total") -> Issue:
    tree = faulty(old, new)
    bug = ReportedBug("sums.py", tree, [f"tests/test_sums.py::{test}" for test in tests], {})
    return write_issue(package(), tree, [bug], IssueSecrets([old], [told], ["sums.py"]), RUN, "0")


def probe(*trees: dict[str, bytes]) -> SnippetProbe:
    return SnippetProbe(RUN, {str(number): tree for number, tree in enumerate(trees)}, (".",), ["sums"])


@pytest.mark.real
def test_an_issue_shows_code_with_the_expected_and_the_actual_result() -> None:
    made = issue("        result += value", "        result = value", "test_total")
    assert made.reproducible
    assert "from sums import total" in made.text
    assert "total([" in made.text


@pytest.mark.real
def test_an_issue_does_not_show_the_input_of_the_hidden_test() -> None:
    assert "[1, 2, 3]" not in issue("        result += value", "        result = value", "test_total").text


@pytest.mark.real
def test_an_issue_about_an_error_shows_the_error() -> None:
    made = issue("    result = start", "    result = start.real.imag.none", "test_total")
    assert "AttributeError: 'int' object has no attribute 'none'" in made.text


@pytest.mark.real
def test_an_issue_about_a_missing_error_names_it() -> None:
    made = issue("    if low > high:", "    if False:", "test_clamp_bounds")
    assert "`ValueError" in made.text


@pytest.mark.real
def test_the_message_of_an_error_is_left_out_where_it_tells_a_secret() -> None:
    made = issue("    result = start", "    raise OSError('_inner_name')", "test_total", told="_inner_name")
    assert made.reproducible
    assert "OSError" in made.text
    assert "_inner_name" not in made.text


def test_a_bug_that_no_code_shows_is_told_about() -> None:
    made = issue("result += value", "result = value", "test_that_is_not_there")
    assert not made.reproducible
    assert "sums" in made.text


def test_different_people_seem_to_write_the_issues() -> None:
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
def test_secrets_in_a_text_are_noticed(text: str, allowed: str, tells: bool) -> None:
    secrets = IssueSecrets(["    result += value", "else:"], ["C._inner"], ["src/sums.py"])
    assert reveals_secret(text, secrets, allowed) is tells


def test_snippets_put_parameters_fixtures_and_helpers_in_their_place() -> None:
    source = """
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
    assert "from sums import total\nnumbers = [1, 2]\nstr(total(numbers, start=5))" in codes("test_it", source)


def test_snippets_end_where_a_test_expects_an_error() -> None:
    source = "def test_it():\n    with pytest.raises(TypeError):\n        total(1)\n"
    assert codes("test_it", source) == ["total(1)"]


def test_snippets_print_what_a_loop_checks() -> None:
    source = "def test_it():\n    for x in [1]:\n        assert total([x]) == x\n    assert total([]) == 0"
    assert "for x in [1]:\n    print(total([x]))\ntotal([])" in codes("test_it", source)


def test_snippets_of_unittest_cases_have_no_self() -> None:
    source = """
class TestIt(TestCase):
    def setUp(self):
        self.values = [1]

    def test_it(self):
        self.assertEqual(total(self.values), 1)
        self.assertRaises(TypeError, total, 5)
"""
    assert codes("TestIt::test_it", source)[1:] == ["values = [1]\ntotal(values)", "values = [1]\ntotal(5)"]


def test_snippets_of_the_package_are_read_from_its_tests() -> None:
    assert "from sums import total\ntotal([1, 2, 3])" in codes("test_total", TESTS)


def test_variants_have_other_values_and_the_same_form() -> None:
    found = list(variants(snippet("f([1, 'ab'], k='2024-01-31')[0]"), ["cd"], 30, random.Random(0)))
    assert len(found) > 10
    assert all(item.code.startswith("f([") and item.code.endswith("[0]") for item in found)
    assert not any("2024-01-31" in item.code and "[1, 'ab']" in item.code for item in found)


def test_shorter_snippets_lack_one_thing_each() -> None:
    found = [item.code for item in shorter(snippet("x = 1\ny = 2\nf([x, 3], k=4)"))]
    assert "x = 1\nf([x, 3], k=4)" in found
    assert "x = 1\ny = 2\nf([3], k=4)" in found
    assert "x = 1\ny = 2\nf([x, 3])" in found
    assert "y = 2\nf([1, 3], k=4)" in found


@pytest.mark.real
def test_a_probe_shows_values_errors_and_calls_of_each_tree() -> None:
    other = faulty("result += value", "result = value")
    values, errors = probe(FILES, other)([("import sums", "sums.total([1, 2])"), ("", "[][1]")])
    assert [shown and shown.repr for shown in values.values()] == ["3", "2"]
    assert [shown and shown.calls for shown in values.values()] == [("total",), ("total",)]
    assert [shown and shown.raised for shown in errors.values()] == ["IndexError", "IndexError"]


@pytest.mark.real
def test_a_probe_keeps_snippets_apart() -> None:
    change = ("import sums\nsums.total = len", "sums.total([1, 2, 3])")
    first, second = probe(FILES)([change, ("import sums", "sums.total([1, 2, 3])")])
    assert [item["0"] and item["0"].repr for item in (first, second)] == ["3", "6"]


@pytest.mark.real
def test_a_probe_ends_a_snippet_that_does_not() -> None:
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
def test_faults_are_named(expected: SnippetResult, got: SnippetResult, fault: Fault) -> None:
    assert fault_of(expected, got) is fault


def test_code_has_double_quotes_where_that_changes_nothing() -> None:
    code = """f('a', 'say "x"', "it's", '\\n')"""
    assert double_quoted(code) == """f("a", 'say "x"', "it's", "\\n")"""
    assert ast.dump(ast.parse(double_quoted(code))) == ast.dump(ast.parse(code))
