"""Refactoring tasks: only the whole gold change passes the checks, and checking runs no code."""

from __future__ import annotations

import pytest

from agentgym.base.errors import UsageError
from agentgym.envs.swe.building.measure_refactor import measure
from agentgym.envs.swe.building.runner import SubprocessRunner
from agentgym.tasks.swe.bundled import repository_files
from agentgym.tasks.swe.refactor import evaluate, refactor_instances
from agentgym.tasks.swe.refactor.source import Refactoring, apply_edits, refactorings
from agentgym.tools.patches import apply_patch, touched
from tests.rows import each_row

TASKS = list(refactorings())


def passes(item: Refactoring, tree: dict[str, bytes]) -> bool:
    return all(result.holds for result in evaluate(item.checks, tree))


@each_row("item", TASKS)
def test_only_the_whole_gold_change_passes_all_checks(item: Refactoring) -> None:
    before, gold = dict(repository_files(item.repository)), item.gold()
    assert [result.reason for result in evaluate(item.checks, gold) if not result.holds] == []
    assert not passes(item, before)
    for path in [name for name in gold if before.get(name) != gold[name]]:
        partial = {name: data for name, data in gold.items() if name != path}
        if path in before:
            partial[path] = before[path]
        assert not passes(item, partial), path


@pytest.mark.real
@each_row("item", [TASKS[number] for number in (0, 6, 10, 14)])
def test_stored_test_lists_match_a_new_measurement(item: Refactoring) -> None:
    instance = next(instance for instance in refactor_instances() if instance.id.endswith(item.name))
    expected = {"fail_to_pass": list(instance.fail_to_pass), "pass_to_pass": list(instance.pass_to_pass)}
    assert measure(item, SubprocessRunner()) == expected


def test_gold_patch_creates_the_gold_tree_and_changes_no_tests() -> None:
    for item, instance in zip(refactorings(), refactor_instances(), strict=True):
        assert apply_patch(repository_files(item.repository), instance.gold_patch) == item.gold()
        assert not any(path.startswith("tests/") for path in touched(instance.gold_patch))
        assert instance.fail_to_pass
        assert len(touched(instance.gold_patch)) >= 2


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
        ({"defined": "pkg.a:D"}, False),
        ({"not_defined": "pkg.b:f"}, True),
        ({"not_defined": "pkg.a:f"}, False),
        ({"referenced": "g", "within": "pkg.a:f"}, True),
        ({"referenced": "g", "within": "pkg.a:C"}, False),
        ({"not_referenced": "LIMIT", "within": "pkg"}, False),
        ({"imports": "pkg.a:f", "within": "pkg"}, True),
        ({"imports": "pkg.b:g", "within": "pkg.a"}, False),
        ({"calls": "g", "within": "pkg.a:f"}, True),
        ({"not_calls": "g", "within": "pkg.a:f"}, False),
        ({"parameters": "pkg.a:f", "are": ["x", "y"]}, True),
        ({"parameters": "pkg.a:f", "are": ["x"]}, False),
        ({"default": "pkg.a:f", "of": "y", "is": "LIMIT"}, True),
        ({"default": "pkg.a:f", "of": "y", "is": "3"}, False),
        ({"statements_at_most": 1, "within": "pkg.a:f"}, True),
        ({"statements_at_most": 0, "within": "pkg.a:f"}, False),
    ],
)
def test_check_holds_or_gives_a_reason(check: dict[str, object], expected: bool) -> None:
    (result,) = evaluate([check], TREE)
    assert result.holds is expected
    assert bool(result.reason) is not expected


@each_row("source", [b"def f(:", b"\xff\xfe", b"(" * 100_000, b"\0"])
def test_unparsable_code_fails_checks(source: bytes) -> None:
    checks = [{"defined": "pkg.a:f"}, {"not_referenced": "x", "within": "pkg"}]
    assert [result.holds for result in evaluate(checks, {"pkg/a.py": source})] == [False, False]


def test_checking_does_not_run_the_code() -> None:
    tree = {"pkg/a.py": b"raise SystemExit('ran')\ndef f(): ...\n"}
    assert evaluate([{"defined": "pkg.a:f"}], tree)[0].holds


def test_unknown_verb_and_edit_without_effect_are_refused() -> None:
    with pytest.raises(UsageError, match="needs one verb"):
        evaluate([{"is_defined": "pkg.a:f"}], TREE)
    with pytest.raises(UsageError, match="changes nothing"):
        apply_edits({"a.py": b"x"}, [{"path": "a.py", "find": "y", "replace": "z"}])
