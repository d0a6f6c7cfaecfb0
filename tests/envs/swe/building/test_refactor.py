"""Refactoring tasks: gold fulfils every check, doing nothing or half of it does not, and checking runs nothing."""

from __future__ import annotations

import pytest

from agentgym.envs.swe.building.measure_refactor import measure
from agentgym.envs.swe.building.runner import SubprocessRunner
from agentgym.errors import UsageError
from agentgym.tasks.swe.bundled import repository_files
from agentgym.tasks.swe.instance import from_task
from agentgym.tasks.swe.refactor import RefactorTasks, evaluate, refactor_instances
from agentgym.tasks.swe.refactor.source import Refactoring, apply_edits, refactorings
from agentgym.tools.patches import apply_patch, touched
from tests.rows import each_row

TASKS = list(refactorings())


def holds(item: Refactoring, tree: dict[str, bytes]) -> bool:
    return all(result.holds for result in evaluate(item.checks, tree))


@each_row("item", TASKS)
def test_gold_fulfils_every_check(item: Refactoring) -> None:
    assert [result.reason for result in evaluate(item.checks, item.gold()) if not result.holds] == [], item.name


@each_row("item", TASKS)
def test_doing_nothing_fails_a_check(item: Refactoring) -> None:
    assert not holds(item, dict(repository_files(item.repository)))


@each_row("item", TASKS)
def test_leaving_out_any_one_file_fails_a_check(item: Refactoring) -> None:
    before, gold = repository_files(item.repository), item.gold()
    for path in [name for name in gold if before.get(name) != gold[name]]:
        half = {name: data for name, data in gold.items() if name != path}
        if path in before:
            half[path] = before[path]
        assert not holds(item, half), path


@pytest.mark.real
@each_row("item", [TASKS[number] for number in (0, 6, 10, 14)])
def test_measured_tests_are_what_the_tests_do(item: Refactoring) -> None:
    instance = next(one for one in refactor_instances() if one.id.endswith(item.name))
    measured = measure(item, SubprocessRunner())
    assert measured == {
        "fail_to_pass": list(instance.fail_to_pass),
        "pass_to_pass": list(instance.pass_to_pass),
    }


def test_gold_patch_makes_the_gold_tree_and_leaves_tests_alone() -> None:
    for item, instance in zip(refactorings(), refactor_instances(), strict=True):
        assert apply_patch(repository_files(item.repository), instance.gold_patch) == item.gold()
        assert not any(path.startswith("tests/") for path in touched(instance.gold_patch))
        assert instance.fail_to_pass
        assert len(touched(instance.gold_patch)) >= 2


def test_source_has_three_splits_and_serves_the_untouched_repository() -> None:
    source = RefactorTasks()
    assert source.splits == ("train", "validation", "test")
    task = source.get("test", 0)
    assert source.tree(task) == repository_files(from_task(task).repo)
    assert sum(source.size(split) for split in source.splits) == len(TASKS) >= 12


TREE = {
    "src/pkg/__init__.py": b"from pkg.a import f\n",
    "src/pkg/a.py": b"""from . import b
LIMIT = 3
def f(x, *, y=LIMIT):
    return b.g(x)
class C:
    def m(self): ...
""",
    "src/pkg/b.py": b"import os\ndef g(z):\n    return z\n",
}


@each_row(
    "check, expected",
    [
        ({"defined": "pkg.a:C.m"}, True),
        ({"defined": "pkg.a:LIMIT"}, True),
        ({"defined": "pkg.a:D"}, False),
        ({"not_defined": "pkg.b:f"}, True),
        ({"not_defined": "pkg.a:f"}, False),
        ({"referenced": "g", "within": "pkg.a:f"}, True),
        ({"referenced": "g", "within": "pkg.a:C"}, False),
        ({"not_referenced": "LIMIT", "within": "pkg"}, False),
        ({"not_referenced": "h", "within": "pkg"}, True),
        ({"imports": "pkg.a:f", "within": "pkg"}, True),
        ({"imports": "pkg:b", "within": "pkg.a"}, True),
        ({"imports": "os", "within": "pkg.b"}, True),
        ({"imports": "pkg.b:g", "within": "pkg.a"}, False),
        ({"calls": "g", "within": "pkg.a:f"}, True),
        ({"not_calls": "g", "within": "pkg.a:f"}, False),
        ({"not_calls": "g", "within": "pkg.a:gone"}, False),
        ({"parameters": "pkg.a:f", "are": ["x", "y"]}, True),
        ({"parameters": "pkg.a:f", "are": ["x"]}, False),
        ({"default": "pkg.a:f", "of": "y", "is": "LIMIT"}, True),
        ({"default": "pkg.a:f", "of": "y", "is": "3"}, False),
        ({"statements_at_most": 1, "within": "pkg.a:f"}, True),
        ({"statements_at_most": 0, "within": "pkg.a:f"}, False),
    ],
)
def test_check(check: dict[str, object], expected: bool) -> None:
    (result,) = evaluate([check], TREE)
    assert result.holds is expected
    assert bool(result.reason) is not expected


@each_row("source", [b"def f(:", b"\xff\xfe", b"(" * 100_000, b"\0"])
def test_code_that_cannot_be_parsed_fails_checks_and_breaks_nothing(source: bytes) -> None:
    checks = [{"defined": "pkg.a:f"}, {"not_referenced": "x", "within": "pkg"}]
    assert [result.holds for result in evaluate(checks, {"pkg/a.py": source})] == [False, False]


def test_checking_runs_nothing_of_the_code() -> None:
    tree = {"pkg/a.py": b"raise SystemExit('ran')\ndef f(): ...\n"}
    assert evaluate([{"defined": "pkg.a:f"}], tree)[0].holds


def test_unknown_verb_is_refused() -> None:
    with pytest.raises(UsageError, match="needs one verb"):
        evaluate([{"is_defined": "pkg.a:f"}], TREE)


def test_edit_that_changes_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="changes nothing"):
        apply_edits({"a.py": b"x"}, [{"path": "a.py", "find": "y", "replace": "z"}])
