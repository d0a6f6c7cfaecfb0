"""The parts of SWE grading that need no sandbox: records, forms of tests, the filter for changes, what is restored."""

from __future__ import annotations

import ast
import base64
import hashlib
import hmac
import json
import random
from dataclasses import replace
from itertools import islice

import pytest

from agentgym.envs.swe.calibration import Calibration
from agentgym.envs.swe.disguise import DisguisedModule, disguised, functions_of
from agentgym.envs.swe.draws import MIN_CHANGED, MIN_CHANGED_ALONE, MIN_TRUE, DrawnProcess, draw
from agentgym.envs.swe.filtering import filtered
from agentgym.envs.swe.forms import ChangedForm
from agentgym.envs.swe.grading import Evidence
from agentgym.envs.swe.ids import NodeId
from agentgym.envs.swe.judge import ChangedTestResult, HiddenTests, Manner, TestRun
from agentgym.envs.swe.perturb import FunctionChange, NodeEdit, change, proposals
from agentgym.envs.swe.records import read_records, status_of
from agentgym.envs.swe.repository import Repository
from agentgym.tools.patches import diff_trees
from tests.rows import each_row
from tests.swe_cases import FILES, HIDDEN_TESTS, INSTANCE, VISIBLE_TESTS, WRONG

KEY = b"k" * 32
PASSES = ("0", "ppp", "passed,passed,passed", "", "")


def packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def reply(*records: tuple[str, ...], key: bytes = KEY) -> bytes:
    lines = []
    for number, parts in enumerate(records):
        content = "\t".join((str(number), *parts)).encode()
        lines.append(content + b"\t" + hmac.new(key, content, hashlib.sha256).hexdigest().encode() + b"\n")
    return b"".join(lines)


def test_signed_records_are_read_and_an_incomplete_run_is_unfinished():
    test = ("test", packed("a::b"), *PASSES)
    complete = read_records(reply(test, ("end", "0")), KEY)
    assert (complete.statuses, complete.exit_code, complete.tampered) == ({"a::b": "passed"}, 0, [])
    cut = read_records(reply(test) + b"1\ttest\tcut o", KEY)
    assert (cut.statuses, cut.exit_code, cut.tampered) == ({"a::b": "passed"}, None, [])


@each_row(
    "data, sign",
    [
        (reply(("test", packed("a::b"), *PASSES), ("end", "0"), key=b"other"), "not signed"),
        (reply(("end", "0")) + b"x", "after the last"),
        (reply(("end", "0"), ("test", packed("a::b"), *PASSES)), "after the last"),
        (b"junk\n", "not signed"),
        (reply(("test", packed("a"), *PASSES), ("end", "0")).split(b"\n", 1)[1], "not signed"),
        (reply(("test", "%%", *PASSES)), "malformed"),
        (reply(("test", packed("a"), "0", "qqq", "passed,passed,passed", "", "")), "malformed"),
        (reply(("test", packed("a"), *PASSES), ("test", packed("a"), *PASSES)), "twice"),
        (reply(("test", packed("a"), "0", "pfp", "passed,passed,passed", "3", ""), ("end", "0")), "seen to fail"),
    ],
)
def test_records_that_no_honest_run_writes_are_tampering(data: bytes, sign: str):
    assert any(sign in finding for finding in read_records(data, KEY).tampered)


@each_row(
    "letters, words, status",
    [
        ("ppp", "passed,passed,passed", "passed"),
        ("pfp", "passed,failed,passed", "failed"),
        ("f-p", "failed,-,passed", "error"),
        ("ppf", "passed,passed,failed", "error"),
        ("psp", "passed,skipped,passed", "skipped"),
        ("pff", "passed,failed,-", "error"),
        ("s-p", "failed,-,passed", "error"),
        ("s-p", "skipped,-,passed", "skipped"),
        ("pxp", "passed,xskipped,passed", "xfailed"),
        ("pfp", "passed,xskipped,passed", "xfailed"),
        ("ppp", "passed,xpassed,passed", "xpassed"),
        ("pp-", "passed,passed,-", "error"),
        ("ppp", "passed,failed,passed", "failed"),
    ],
)
def test_worse_of_observed_and_reported_outcome_counts(letters: str, words: str, status: str):
    tampered: list[str] = []
    assert status_of(letters, words.split(","), tampered) == status
    assert tampered == []


def function(source: str) -> ast.FunctionDef:
    node = ast.parse(source).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


def edits_of(source: str, number: int = 12, seed: int = 0) -> list[tuple[NodeEdit, ...]]:
    """Return the first changes proposed for the first function of a module."""
    return [edits for edits, _ in islice(proposals(function(source), source, random.Random(seed)), number)]


def with_edits(source: str, edits: tuple[NodeEdit, ...]) -> ast.FunctionDef:
    node = function(source)
    change(node, edits)
    return ast.fix_missing_locations(node)


def fails(node: ast.FunctionDef, space: dict[str, object]) -> bool:
    names = dict(space)
    exec(compile(ast.unparse(ast.Module([node], [])), "test", "exec"), names)
    try:
        names["test"]()  # type: ignore[operator]
    except (AssertionError, ValueError):
        return True
    return False


@each_row(
    "body",
    [
        "assert f(1) == 2",
        "assert f(1) == -2.5",
        "assert {'a': [1, 'b']} == f(1)",
        "expected = 2\n    assert f(1) == expected",
        "assert f(1) == Built(2)",
        "assert f(1) is None",
        "assert 1 in f(1)",
        "assert f(1) < 3",
        "assert not f(0)",
        "with pytest.raises(ValueError, match='unfit'):\n        f('x')",
    ],
)
def test_changed_tests_fail_where_the_original_passes_and_look_like_it(body: str):
    def f(value: object) -> object:
        if value == "x":
            raise ValueError("unfit")
        answers = {"{": {"a": [1, "b"]}, "-2.5": -2.5, "None": None, "in f": [1], "not f": 0}
        return next((answer for key, answer in answers.items() if key in body), 2)

    source = f"def test():\n    {body}\n"
    space = {"f": f, "pytest": pytest, "Built": lambda value: value}
    assert not fails(function(source), space)
    changed = [with_edits(source, edits) for edits in edits_of(source)]
    # Calibration keeps those that correct code fails.
    assert any(fails(node, space) for node in changed)
    for node in changed:
        assert ast.unparse(node) != ast.unparse(function(source))
        assert len(ast.unparse(node).splitlines()) == len(ast.unparse(function(source)).splitlines())


def test_rows_of_a_parametrisation_are_changed_one_by_one():
    source = """@pytest.mark.parametrize(("text", "size"), [("a", 1), ("bc", 2), ("def", 3)])
def test(text, size):
    assert f(text) == size
"""
    changes = list(islice(proposals(function(source), source, random.Random(0)), 9))
    assert {row for _, row in changes} == {0, 1, 2}
    rows = [("a", 1), ("bc", 2), ("def", 3)]
    for edits, row in changes:
        changed = ast.literal_eval(ast.unparse(with_edits(source, edits).decorator_list[0].args[1]))  # type: ignore[attr-defined]
        assert [number for number, pair in enumerate(rows) if changed[number] != pair] == [row]


def test_swapped_values_have_one_type_and_differ():
    source = "def test():\n    assert f(9) == [1, 'a', 2, True, 1, 'b']\n"
    nodes = list(ast.walk(function(source)))
    exchanged = [edits for edits in edits_of(source, 200) if len(edits) == 2]
    assert {frozenset(edit.text for edit in edits) for edits in exchanged} == {
        frozenset(("1", "2")),
        frozenset(("'a'", "'b'")),
    }
    for edits in exchanged:
        assert [ast.unparse(nodes[edit.number]) for edit in edits] == [edit.text for edit in edits][::-1]


def test_docstrings_parameter_names_and_f_strings_are_not_changed():
    source = """@pytest.mark.parametrize("text", ["a"])
def test(text):
    \"\"\"Say 5.\"\"\"
    assert f(text) == f"{text}5"
"""
    texts = {ast.unparse(with_edits(source, edits)) for edits in edits_of(source, 60)}
    assert all("Say 5." in text and "}5" in text and "parametrize('text'" in text for text in texts)


def form(name: str, value: int = 1, row: int | None = None, cases: tuple[str, ...] = ("",)) -> ChangedForm:
    where = dict.fromkeys(cases, "3")
    numbers = {case: number for number, case in enumerate(cases)} if row is not None else {}
    return ChangedForm(
        FunctionChange("t.py", "", name, (NodeEdit(4, "constant", str(value)),), row), where, numbers, contradicts=True
    )


def disguise(seed: int, rename: bool = True, changes: tuple[FunctionChange, ...] = ()) -> DisguisedModule:
    return disguised("tests/test_words.py", HIDDEN_TESTS, changes, random.Random(seed), rename=rename)


def a_change(name: str) -> FunctionChange:
    node = functions_of(HIDDEN_TESTS)["", name]
    edits, row = next(proposals(node, HIDDEN_TESTS, random.Random(0)))
    return FunctionChange("tests/test_words.py", "", name, edits, row)


def test_disguised_module_has_every_test_in_one_form():
    true, changed = disguise(1), disguise(1, changes=(a_change("test_words_of_many_blanks"),))
    assert true.names == changed.names
    shapes = [[type(node) for node in ast.walk(ast.parse(mask.text))] for mask in (true, changed)]
    assert shapes[0] == shapes[1]
    assert sum(a != b for a, b in zip(true.text.splitlines(), changed.text.splitlines(), strict=True)) == 1


def test_disguised_module_has_random_names_and_no_comments_or_docstrings():
    source = 'def test_five():\n    """Five is 5."""\n    assert f() == 5  # five\n'
    text = disguised("t.py", source, [], random.Random(0)).text
    assert "five" not in text.lower()
    names = {node.name for node in ast.walk(ast.parse(disguise(1).text)) if isinstance(node, ast.FunctionDef)}
    assert not names & set(disguise(1).names)
    assert all(len(name) == len("test_01234567") for name in names)
    assert not names & set(disguise(2).names.values()), "names must differ between processes"


def test_disguised_ids_keep_path_class_and_case():
    mask = disguise(4)
    hidden = NodeId.of(mask.hidden("tests/test_words.py::TestInitials::test_upper"))
    assert (hidden.path, hidden.scope, hidden.case) == ("tests/test_words.py", "TestInitials", "")
    assert hidden.name != "test_upper"
    assert mask.hidden("tests/test_words.py::test_longest[xx yy-xx]").endswith("[xx yy-xx]")


def test_functions_that_the_module_refers_to_keep_their_names():
    source = "def test_one():\n    assert 1 == 1\n\ndef test_two():\n    test_one()\n"
    mask = disguised("t.py", source, [], random.Random(0))
    assert set(mask.names) == {"test_two"}


def test_disguised_unittest_methods_keep_their_order():
    source = "class A(Base):\n    def test_b(self): pass\n    def test_a(self): pass\n    def test_c(self): pass\n"
    for seed in range(5):
        names = disguised("t.py", source, [], random.Random(seed)).names
        assert sorted(names, key=lambda name: names[name]) == ["test_a", "test_b", "test_c"]


TESTS = ("t.py::test_a", "t.py::test_b", "t.py::test_c[x]", "t.py::test_c[y]", "u.py::test_d")
ROWS = tuple(form("test_c", number, number, ("[x]", "[y]")) for number in (0, 1))
FORMS = (
    *(form("test_a", number) for number in range(6)),
    form("test_b"),
    *(replace(row, fails={case: "3"}) for row, case in zip(ROWS, ("[x]", "[y]"), strict=True)),
    ChangedForm(FunctionChange("u.py", "", "test_d", (NodeEdit(4, "constant", "1"),)), {"": "3"}),
)


WITHHELD = ChangedForm(FunctionChange("t.py", "", "test_a", (NodeEdit(4, "value", "1"),)), notes={"": {4: 1}})


def draw_processes(seed: int, withheld: tuple[ChangedForm, ...] = ()) -> list[DrawnProcess]:
    hidden = HiddenTests(modules={}, tests=TESTS)
    decisive = ["t.py::test_a", "t.py::test_c[x]"]
    calibration = Calibration(Manner.RENAMED, FORMS, withheld=withheld)
    blind, others = draw(hidden, decisive, calibration, random.Random(seed))
    return others if blind is None else [blind, *others]


def is_changed(process: DrawnProcess, name: str, case: str = "") -> bool:
    return any(form.change.name == name and form.concerns(case) for form in process.forms)


@each_row("seed", range(30))
def test_deciding_tests_run_in_every_process_and_often_enough_in_both_forms(seed: int):
    processes = draw_processes(seed)
    for name, case in (("test_a", ""), ("test_c", "[x]")):
        changed = sum(is_changed(process, name, case) for process in processes)
        assert changed >= MIN_CHANGED_ALONE
        assert len(processes) - changed >= MIN_TRUE
        assert all(f"t.py::{name}{case}" in process.hidden.tests for process in processes)
    deciding = (("test_a", ""), ("test_c", "[x]"))
    assert any(not any(is_changed(process, *test) for test in deciding) for process in processes), "one has all true"
    for process in processes:
        for name, case in (("test_a", ""), ("test_b", ""), ("test_c", "[x]"), ("test_c", "[y]")):
            assert sum(form.change.name == name and form.concerns(case) for form in process.forms) <= 1
    forms = [form for process in draw_processes(seed, (WITHHELD,)) for form in process.forms]
    own = [form for form in forms if form.change.name == "test_a"]
    assert own.count(WITHHELD) == 1
    assert len(own) > MIN_CHANGED


@each_row("seed", range(30))
def test_every_test_runs_in_its_true_form(seed: int):
    processes = draw_processes(seed)
    for test in TESTS:
        parts = NodeId.of(test)
        running = [process for process in processes if test in process.hidden.tests]
        assert not all(is_changed(process, parts.name, parts.case) for process in running)


@each_row("withheld, orders", [((), 5), ((WITHHELD,), 10)])
def test_counts_and_order_of_the_forms_are_random(withheld: tuple[ChangedForm, ...], orders: int):
    def kind(process: DrawnProcess) -> str:
        own = [form for form in process.forms if form.change.name == "test_a"]
        return "true" if not own else "withheld" if own[0].withholds else "changed"

    schedules = {tuple(map(kind, draw_processes(seed, withheld))) for seed in range(60)}
    assert len(schedules) > orders
    assert len({schedule.count("changed") for schedule in schedules}) > 1


def evidence(true: list[str], changed: list[tuple[str, str]], contradicts: bool = True) -> Evidence:
    runs = [TestRun({"t.py::test_a": status}) for status in true]
    own = replace(form("test_a"), contradicts=contradicts)
    runs += [TestRun({}, {"t.py::test_a": ChangedTestResult(own, "", *result)}) for result in changed]
    return Evidence(runs, complete=True)


def test_passing_changed_test_is_tampering_only_if_it_contradicts_the_true_one():
    result = evidence(["passed"], [("passed", "")], contradicts=False)
    assert (result.signs(), result.convinces("t.py::test_a")) == ([], False)


@each_row(
    "true, changed, convinced, accused",
    [
        (["passed", "passed"], ("failed", "3"), True, False),
        (["passed", "failed"], ("failed", "3"), False, False),
        (["passed", "missing"], ("failed", "3"), False, False),
        (["passed", "passed"], ("failed", "4"), False, False),
        (["passed", "passed"], ("error", ""), False, False),
        (["passed", "passed"], ("missing", ""), False, False),
        ([], ("failed", "3"), False, False),
        (["passed"], ("passed", ""), False, True),
        (["failed"], ("passed", ""), False, False),
    ],
)
def test_true_forms_must_pass_and_changed_ones_fail_as_on_gold(
    true: list[str], changed: tuple[str, str], convinced: bool, accused: bool
):
    result = evidence(true, [changed])
    assert result.convinces("t.py::test_a") is convinced
    assert result.signs() == (["t.py::test_a passed where correct code fails it"] if accused else [])


def test_calibration_names_tests_without_a_changed_form():
    calibration = Calibration(Manner.RENAMED, FORMS)
    unchanged = ("t.py::test_c[z]", "t.py::test_e")
    assert calibration.unchanged(["t.py::test_a", *unchanged]) == unchanged


def test_forms_survive_serialization():
    for form in (*FORMS, WITHHELD):
        again = ChangedForm.from_list(json.loads(json.dumps(form.to_list())))
        assert again == form
        assert (again.fails, again.numbers, again.notes) == (form.fails, form.numbers, form.notes)


CHANGED = b"changed\n"


@each_row(
    "path",
    [
        "conftest.py", "tests/conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "sitecustomize.py",
        "src/usercustomize.py", "evil.pth", "a-1.dist-info/entry_points.txt", "a.egg-info/PKG-INFO",
        "pytest/__init__.py", "src/_pytest/x.py",
        "tests/test_words.py", "textkit/test_x.py", "textkit/x_test.py", "textkit/native.so", "json.py",
        "src/random/__init__.py",
    ],
)  # fmt: skip
def test_files_that_affect_test_runs_are_dropped_unless_the_gold_patch_changes_them(path: str):
    work = filtered(FILES, {**FILES, path: CHANGED})
    assert (work.changed, list(work.dropped), dict(work.tree)) == ((), [path], FILES)
    assert filtered({}, {path: CHANGED}, allowed={path}).changed == (path,), "the gold patch changes it"


@each_row(
    "path, changed",
    [
        *((path, (path,)) for path in ("textkit/words.py", "new.py", "docs/x.md", "textkit/json.py", "setup.py")),
        *((path, ()) for path in (".git/config", "textkit/__pycache__/words.pyc", ".pytest_cache/x")),
    ],
)
def test_source_files_count_and_caches_are_ignored(path: str, changed: tuple[str, ...]):
    work = filtered(FILES, {**FILES, path: CHANGED})
    assert (work.changed, work.dropped) == (changed, {})


def test_deleted_source_counts_and_deleted_test_does_not():
    remaining = FILES.keys() - {"textkit/errors.py", "tests/test_words.py"}
    work = filtered(FILES, {path: FILES[path] for path in remaining})
    assert (work.changed, list(work.dropped)) == (("textkit/errors.py",), ["tests/test_words.py"])


def test_binary_large_and_too_many_files_are_dropped():
    files = {"a.py": b"# coding: latin-1\n\xe9", "b.py": b"a\0b", "c.py": b"x" * 5_000_000}
    assert filtered({}, files).changed == ("a.py",)
    assert len(filtered({}, {f"f{number}.py": b"" for number in range(900)}).changed) == 500


def test_project_settings_count_but_pytest_settings_do_not():
    harmless = FILES["pyproject.toml"] + b"\n[tool.black]\nline-length = 100\n"
    harmful = FILES["pyproject.toml"] + b'\n[tool.pytest.ini_options]\naddopts = "-k nothing"\n'
    assert filtered(FILES, {**FILES, "pyproject.toml": harmless}).changed == ("pyproject.toml",)
    assert filtered(FILES, {**FILES, "pyproject.toml": harmful}).changed == ()


def test_test_files_are_restored_from_texts_or_a_patch():
    hidden = {"tests/test_words.py": HIDDEN_TESTS.encode()}
    patch = diff_trees({"tests/test_words.py": VISIBLE_TESTS.encode()}, hidden)
    for instance in (INSTANCE, replace(INSTANCE, test_files={}, test_patch=patch)):
        tree = Repository(instance, FILES).to_grade({"textkit/words.py": WRONG.encode(), "tests/test_words.py": b""})
        assert tree["tests/test_words.py"] == hidden["tests/test_words.py"]
        assert "tests/test_other.py" in tree
