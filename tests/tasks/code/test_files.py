"""Files in the formats of public code benchmarks as task sources."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from agentgym.core.task import Task
from agentgym.tasks.code.files import CodeFileTasks
from tests.refusals import refusal
from tests.tasks.entries import (
    BUGGY,
    GSM8K,
    HUMAN_EVAL,
    MBPP,
    PLAIN,
    QUIXBUGS,
    SANITIZED,
    TESTS,
    every_task,
    write_entries,
)


def the_task(folder: Path, entry: dict[str, Any], **arguments: Any) -> Task:
    (task,) = every_task(CodeFileTasks(write_entries(folder, entry), **arguments))
    return task


def passes(task: Task, code: str) -> bool:
    """Whether the code passes the examples, hidden cases and check of the task. The check sees only the prelude."""
    names: dict[str, Any] = {}
    exec(task.data.get("prelude", "") + code, names)
    candidate = names[task.data["entry_point"]]
    for case in [*task.data["examples"], *task.gold.get("cases", ())]:
        if candidate(*ast.literal_eval(case["args"])) != ast.literal_eval(case["expect"]):
            return False
    checks: dict[str, Any] = {}
    exec(task.data.get("prelude", "") + task.gold.get("check", "def check(candidate): pass"), checks)
    try:
        checks["check"](candidate)
    except AssertionError:
        return False
    return True


def test_gold_passes_and_wrong_code_fails(tmp_path: Path):
    for entry, wrong in (
        (HUMAN_EVAL, "def second(numbers, low): return 8"),
        (MBPP, "def widest(pairs): return 4"),
        (SANITIZED, "def half(x): return x // 2"),
        (QUIXBUGS, BUGGY),
    ):
        task = the_task(tmp_path, entry)
        assert passes(task, task.gold["code"])
        assert not passes(task, wrong)


def test_human_eval_examples_are_literals_that_the_check_confirms(tmp_path: Path):
    task = the_task(tmp_path, HUMAN_EVAL, format="humaneval")
    assert task.id == "humaneval/7"
    assert task.data["examples"] == [
        {"args": "([1, 5, 9], 2)", "expect": "18"},
        {"args": "([3, 8, 9], 5)", "expect": "18"},
    ]
    assert task.data["signature"] == "def second(numbers: List[int], low: int) -> int:"
    assert "def double" in task.data["prelude"]


def test_mbpp_checks_include_helpers_setup_and_challenge_tests(tmp_path: Path):
    task = the_task(tmp_path, MBPP)
    assert (task.data["entry_point"], task.data["signature"]) == ("widest", "def widest(pairs):")
    assert "class Pair" in task.data["prelude"]
    assert "gap" not in task.data["prelude"]
    assert task.gold["check"].count("assert candidate(") == 3
    assert "one = 1" in task.gold["check"]
    assert MBPP["test_list"][0] in task.prompt
    sanitized = the_task(tmp_path, SANITIZED)
    assert sanitized.data["examples"] == [{"args": "(3,)", "expect": "1.5"}]
    assert sanitized.gold["check"].startswith("import math\n")


def test_mbpp_is_divided_as_published(tmp_path: Path):
    numbers = {1: "train", 10: "train", 11: "test", 510: "test", 511: "validation", 600: "validation", 601: "train"}
    entries = [{**SANITIZED, "task_id": number, "prompt": f"{number}"} for number in numbers]
    source = CodeFileTasks(write_entries(tmp_path, *entries))
    assert {number: source.find(f"mbpp/{number}").split for number in numbers} == numbers


def test_gsm8k_answers_are_numbers(tmp_path: Path):
    for end, answer in {"#### 1,001": "1001", "#### -3": "-3", "#### 2.50": "2.5", "#### $7": "7"}.items():
        task = the_task(tmp_path, {**GSM8K, "answer": f"so <<1+1=2>>\n{end}"})
        assert task.gold == {"answer": answer, "code": f"print({answer})\n"}
        assert task.data == {"kind": "value", "needs_code": False}
    for answer in ("#### many", "5"):
        assert "'#### ' and a number" in refusal(CodeFileTasks, write_entries(tmp_path, {**GSM8K, "answer": answer}))


def test_quixbugs_json_cases_are_hidden_except_the_examples(tmp_path: Path):
    task = the_task(tmp_path, QUIXBUGS)
    assert task.data["examples"] == [{"args": "([1, 2],)", "expect": "3"}]
    assert [case["args"] for case in task.gold["cases"]] == ["([],)", "([5],)"]
    assert task.data["kind"] == "fix"
    assert '"""' not in task.data["code"]


def test_quixbugs_tests_beyond_plain_comparisons_become_a_check(tmp_path: Path):
    for tests in (
        {"test": "total(*input_data) == pytest.approx(expected, abs=0.5)"},
        {"skip": "expected = expected + 0"},
    ):
        task = the_task(tmp_path, {**QUIXBUGS, "pytest": TESTS.format(**{**PLAIN, **tests})})
        assert "pytest" not in task.gold["check"]
        assert passes(task, task.gold["code"])
        assert not passes(task, BUGGY)


def test_reading_a_file_runs_none_of_its_code(tmp_path: Path):
    mark = tmp_path / "ran"
    bad = f"open({str(mark)!r}, 'w').close()\n"
    for entry in ({**MBPP, "code": bad + MBPP["code"]}, {**QUIXBUGS, "fixed": bad + QUIXBUGS["fixed"]}):
        CodeFileTasks(write_entries(tmp_path, entry))
    assert not mark.exists()
