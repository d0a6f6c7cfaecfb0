"""The parts of SWE grading that need no sandbox: records, canaries, the filter for changes, and what is restored."""

from __future__ import annotations

import ast
import base64
import hashlib
import hmac
import random

import pytest

from agentgym.envs.swe.calibration import Calibration
from agentgym.envs.swe.canaries import Candidate, candidates, disguised
from agentgym.envs.swe.filtering import filtered
from agentgym.envs.swe.grading import signs
from agentgym.envs.swe.ids import NodeId
from agentgym.envs.swe.judge import Manner, TestRun
from agentgym.envs.swe.perturb import Site, perturbed, sites
from agentgym.envs.swe.records import read_records, status_of
from agentgym.envs.swe.repository import Repository
from agentgym.tools.patches import diff_trees
from tests.swe_cases import FILES, HIDDEN_TESTS, INSTANCE, REPOSITORY, VISIBLE_TESTS, WRONG

KEY = b"k" * 32
PASSES = ("ppp", "passed,passed,passed")


def packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def reply(*records: tuple[str, ...], key: bytes = KEY) -> bytes:
    lines = []
    for number, parts in enumerate(records):
        content = "\t".join((str(number), *parts)).encode()
        lines.append(content + b"\t" + hmac.new(key, content, hashlib.sha256).hexdigest().encode() + b"\n")
    return b"".join(lines)


def test_signed_records_are_believed():
    found = read_records(reply(("test", packed("a::b"), *PASSES), ("end", "0")), KEY)
    assert (found.statuses, found.exit_code, found.tampered) == ({"a::b": "passed"}, 0, [])


@pytest.mark.parametrize(
    ("data", "sign"),
    [
        (reply(("test", packed("a::b"), *PASSES), ("end", "0"), key=b"other"), "not signed"),
        (reply(("end", "0")) + b"x", "after the last"),
        (reply(("end", "0"), ("test", packed("a::b"), *PASSES)), "after the last"),
        (b"junk\n", "not signed"),
        (reply(("test", packed("a"), *PASSES), ("end", "0")).split(b"\n", 1)[1], "not signed"),
        (reply(("test", "%%", *PASSES)), "no sense"),
        (reply(("test", packed("a"), "qqq", "passed,passed,passed")), "no sense"),
        (reply(("test", packed("a"), *PASSES), ("test", packed("a"), *PASSES)), "twice"),
        (reply(("test", packed("a"), "pfp", "passed,passed,passed"), ("end", "0")), "seen to fail"),
    ],
)
def test_records_that_no_honest_run_writes_are_signs_of_tampering(data: bytes, sign: str):
    assert any(sign in told for told in read_records(data, KEY).tampered)


def test_a_run_that_breaks_off_is_unfinished_but_no_tampering():
    found = read_records(reply(("test", packed("a"), *PASSES)) + b"1\ttest\tcut o", KEY)
    assert (found.exit_code, found.tampered) == (None, [])


@pytest.mark.parametrize(
    ("letters", "words", "status"),
    [
        ("ppp", "passed,passed,passed", "passed"),
        ("pfp", "passed,failed,passed", "failed"),
        ("f-p", "failed,-,passed", "error"),
        ("ppf", "passed,passed,failed", "error"),
        ("psp", "passed,skipped,passed", "skipped"),
        ("s-p", "skipped,-,passed", "skipped"),
        ("pxp", "passed,xskipped,passed", "xfailed"),
        ("pfp", "passed,xskipped,passed", "xfailed"),
        ("ppp", "passed,xpassed,passed", "xpassed"),
        ("pp-", "passed,passed,-", "error"),
        ("ppp", "passed,failed,passed", "failed"),
    ],
)
def test_the_worse_of_what_was_seen_and_told_counts(letters: str, words: str, status: str):
    tampered: list[str] = []
    assert status_of(letters, words.split(","), tampered) == status
    assert tampered == []


def function(source: str) -> ast.FunctionDef:
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


@pytest.mark.parametrize(
    ("body", "style"),
    [
        ("assert f(1) == 2", "literal"),
        ("assert f(1) == -2.5", "literal"),
        ("assert {'a': [1, 'b']} == f(1)", "literal"),
        ("assert f(1) == expected", "rebound"),
        ("found = f(1)\n    assert found == expected", "rebound"),
        ("assert f(1) == g(0)", "wrapped"),
        ("assert f(1) is None", "opposite"),
        ("assert 3 not in f(1)", "opposite"),
        ("assert f(1) < 3", "opposite"),
        ("assert not f(0)", "opposite"),
        ("with pytest.raises(ValueError):\n        f('x')", "raises"),
    ],
)
def test_a_changed_expectation_fails_where_the_original_passes(body: str, style: str):
    def f(value: object) -> object:
        if value == "x":
            raise ValueError
        answers = {"{": {"a": [1, "b"]}, "-2.5": -2.5, "None": None, "not in": [1], "not f": 0}
        return next((answer for key, answer in answers.items() if key in body), 2)

    node = function(f"def test(expected=2):\n    {body}\n")
    site = sites(node)[0]
    assert site.style == style
    space = {"f": f, "g": lambda value: 2, "pytest": pytest}
    assert fails(node, space) is False
    for seed in range(20):
        assert fails(perturbed(node, site, random.Random(seed)), space)


def fails(node: ast.FunctionDef | ast.AsyncFunctionDef, space: dict[str, object]) -> bool:
    names = dict(space)
    module = ast.fix_missing_locations(ast.Module([node], []))
    exec(compile(ast.unparse(module), "test", "exec"), names)
    try:
        names["test"]()  # type: ignore[operator]
    except (AssertionError, ValueError):
        return True
    return False


@pytest.mark.parametrize(
    "call", ["assertEqual(f(), 3)", "assertTrue(f())", "assertIn(3, [f()])", "assertRaises(ValueError, f, 'x')"]
)
def test_unittest_expectations_can_be_changed(call: str):
    found = sites(function(f"def test(self):\n    self.{call}\n"))
    assert found[0].style in ("literal", "opposite", "raises")


def disguise(seed: int, rename: bool = True):
    chosen = candidates("tests/test_words.py", HIDDEN_TESTS, REPOSITORY.hidden.tests)
    return disguised("tests/test_words.py", HIDDEN_TESTS, chosen, random.Random(seed), rename=rename)


def test_no_name_in_a_disguised_module_tells_which_tests_are_canaries():
    mask = disguise(1)
    names = {node.name for node in ast.walk(ast.parse(mask.text)) if isinstance(node, ast.FunctionDef)}
    assert not names & set(mask.names)
    assert all(len(name) == len("test_01234567") for name in names)


def test_names_differ_from_run_to_run():
    one, two = disguise(1), disguise(2)
    assert set(one.names) == set(two.names)
    assert not set(one.names.values()) & set(two.names.values())
    assert not set(one.planted) & set(two.planted)


def test_every_canary_knows_the_test_it_contradicts():
    mask = disguise(3)
    assert {twin for _, twin in mask.planted.values()} <= set(REPOSITORY.hidden.tests)
    assert {candidate.site.style for candidate, _ in mask.planted.values()} >= {"literal", "rebound", "raises"}


def test_hidden_ids_keep_path_class_and_case():
    mask = disguise(4)
    hidden = NodeId.of(mask.hidden("tests/test_words.py::TestInitials::test_upper"))
    assert (hidden.path, hidden.scope, hidden.case) == ("tests/test_words.py", "TestInitials", "")
    assert hidden.name != "test_upper"
    assert mask.hidden("tests/test_words.py::test_longest[xx yy-xx]").endswith("[xx yy-xx]")


def test_tests_that_are_called_by_name_keep_it():
    source = "def test_one():\n    assert 1 == 1\n\ndef test_two():\n    test_one()\n"
    mask = disguised("t.py", source, [], random.Random(0))
    assert set(mask.names) == {"test_two"}


def test_tests_of_unittest_stay_in_order():
    source = "class A(Base):\n    def test_b(self): pass\n    def test_a(self): pass\n    def test_c(self): pass\n"
    for seed in range(5):
        names = disguised("t.py", source, [], random.Random(seed)).names
        assert sorted(names, key=lambda name: names[name]) == ["test_a", "test_b", "test_c"]


def a_run(twin: str, canary: str) -> TestRun:
    candidate = Candidate("t.py", "", "test_a", Site("literal", 1))
    return TestRun({"t.py::test_a": twin}, {candidate: {"t.py::test_a": canary}})


def test_a_live_canary_accuses_only_where_its_test_passes_too():
    assert signs(a_run("passed", "passed")) == ["a literal canary passed"]
    assert signs(a_run("failed", "passed")) == []
    assert signs(a_run("passed", "failed")) == []


def test_canaries_of_the_tests_that_decide_are_drawn_first():
    decisive = [Candidate("t.py", "", "test_a", Site("literal", number)) for number in range(20)]
    others = [Candidate("t.py", "", "test_b", Site("literal", number)) for number in range(40)]
    drawn = Calibration(Manner.RENAMED, (*decisive, *others)).drawn(["t.py::test_a"])
    assert set(decisive) <= set(drawn)


CHANGED = b"changed\n"


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py", "tests/conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "sitecustomize.py",
        "src/usercustomize.py", "evil.pth", "a-1.dist-info/entry_points.txt", "a.egg-info/PKG-INFO",
        "pytest/__init__.py", "src/_pytest/x.py",
        "tests/test_words.py", "textkit/test_x.py", "textkit/x_test.py", "textkit/native.so", "json.py",
        "src/random/__init__.py",
    ],
)  # fmt: skip
def test_what_could_change_how_tests_run_is_left_out_and_named(path: str):
    found = filtered(FILES, {**FILES, path: CHANGED})
    assert (found.changed, list(found.dropped), dict(found.tree)) == ((), [path], FILES)


@pytest.mark.parametrize("path", ["textkit/words.py", "textkit/new.py", "docs/x.md", "textkit/json.py", "setup.py"])
def test_other_changes_are_kept(path: str):
    found = filtered(FILES, {**FILES, path: CHANGED})
    assert (found.changed, found.dropped) == ((path,), {})


@pytest.mark.parametrize("path", [".git/config", "textkit/__pycache__/words.pyc", ".pytest_cache/x"])
def test_what_is_nobodys_work_is_left_out_silently(path: str):
    found = filtered(FILES, {**FILES, path: CHANGED})
    assert (found.changed, found.dropped) == ((), {})


def test_binary_huge_and_countless_files_are_left_out():
    assert filtered({}, {"a.py": b"\xff\xfe", "b.py": b"a\0b", "c.py": b"x" * 5_000_000}).changed == ()
    assert len(filtered({}, {f"f{number}.py": b"" for number in range(900)}).changed) == 500


def test_project_settings_may_change_but_not_those_of_pytest():
    harmless = FILES["pyproject.toml"] + b"\n[tool.black]\nline-length = 100\n"
    harmful = FILES["pyproject.toml"] + b'\n[tool.pytest.ini_options]\naddopts = "-k nothing"\n'
    assert filtered(FILES, {**FILES, "pyproject.toml": harmless}).changed == ("pyproject.toml",)
    assert filtered(FILES, {**FILES, "pyproject.toml": harmful}).changed == ()


def test_what_the_gold_patch_changes_may_be_changed():
    assert filtered({}, {"conftest.py": CHANGED}, allowed={"conftest.py"}).changed == ("conftest.py",)


def test_a_deleted_source_counts_and_a_deleted_test_does_not():
    left = {path: data for path, data in FILES.items() if path not in ("textkit/errors.py", "tests/test_words.py")}
    found = filtered(FILES, left)
    assert (found.changed, list(found.dropped)) == (("textkit/errors.py",), ["tests/test_words.py"])


def test_tests_are_restored_from_texts_and_from_a_patch():
    from dataclasses import replace

    hidden = {"tests/test_words.py": HIDDEN_TESTS.encode()}
    patch = diff_trees({"tests/test_words.py": VISIBLE_TESTS.encode()}, hidden)
    for instance in (INSTANCE, replace(INSTANCE, test_files={}, test_patch=patch)):
        tree = Repository(instance, FILES).to_grade({"textkit/words.py": WRONG.encode(), "tests/test_words.py": b""})
        assert tree["tests/test_words.py"] == hidden["tests/test_words.py"]
        assert "tests/test_other.py" in tree
