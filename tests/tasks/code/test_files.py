"""Files in the formats of public code benchmarks as task sources."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from agentgym.core.task import Task
from agentgym.core.task_files import Why
from agentgym.tasks.code.files import CodeFileTasks
from tests.refusals import refusal
from tests.tasks.entries import (
    BUGGY,
    GSM8K,
    HUMAN_EVAL,
    MBPP,
    NODE,
    NODES,
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
    assert "def second" not in task.data["prelude"]


def test_mbpp_checks_include_helpers_setup_and_challenge_tests(tmp_path: Path):
    task = the_task(tmp_path, MBPP)
    assert (task.data["entry_point"], task.data["signature"]) == ("widest", "def widest(pairs):")
    assert "class Pair" in task.data["prelude"]
    assert "import math" in task.data["prelude"]
    assert "gap" not in task.data["prelude"]
    assert task.gold["check"].count("assert candidate(") == 3
    assert "one = 1" in task.gold["check"]
    assert MBPP["test_list"][0] in task.prompt
    sanitized = the_task(tmp_path, SANITIZED)
    assert sanitized.data["examples"] == [{"args": "(3,)", "expect": "1.5"}]
    assert sanitized.gold["check"].startswith("import math\n")


def test_mbpp_signatures_are_read_in_any_layout(tmp_path: Path):
    forms = {
        "def half (x):\r\n    return x / 2": "def half(x):",
        "def half(x): return x / 2": "def half(x):",
        "def half(\n    x\n):\n  return x / 2": "def half(x):",
        "@staticmethod\ndef half(x: int=4) -> float:  # asked\n  return x / 2": "def half(x: int=4) -> float:",
    }
    entries = [{**SANITIZED, "task_id": n, "prompt": f"{n}", "code": code} for n, code in enumerate(forms, start=1)]
    tasks = {task.id: task for task in every_task(CodeFileTasks(write_entries(tmp_path, *entries), strict=True))}
    assert [tasks[f"mbpp/{n}"].data["signature"] for n in range(1, 5)] == [*forms.values()]
    assert not any("x / 2" in task.prompt for task in tasks.values())


def test_mbpp_is_divided_as_published(tmp_path: Path):
    numbers = {1: "train", 10: "train", 11: "test", 510: "test", 511: "validation", 600: "validation", 601: "train"}
    entries = [{**SANITIZED, "task_id": number, "prompt": f"{number}"} for number in numbers]
    source = CodeFileTasks(write_entries(tmp_path, *entries))
    assert {number: source.find(f"mbpp/{number}").split for number in numbers} == numbers
    assert CodeFileTasks(write_entries(tmp_path, *entries), split_by="train").splits == ("train",)


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
    assert "other forms" not in task.gold["code"]
    skip = 'if not pytest.run_slow and input_data == [[5]]:\n        pytest.skip("slow")'
    task = the_task(tmp_path, {**QUIXBUGS, "pytest": TESTS.format(**{**PLAIN, "skip": skip})})
    assert [case["args"] for case in task.gold["cases"]] == ["([],)", "([1, 2],)"], "without what upstream skips"
    assert task.data["examples"] == []


def test_quixbugs_tests_beyond_plain_comparisons_become_a_check(tmp_path: Path):
    for tests in (
        {"test": "list(total([*input_data[0]]) for _ in 'a') == [expected]"},
        {"test": "total(*input_data) == pytest.approx(expected, abs=0.5)"},
        {"change": "testdata = [[inp, out + 0] for inp, out in testdata]"},
        {"skip": "expected = expected + 0"},
    ):
        task = the_task(tmp_path, {**QUIXBUGS, "pytest": TESTS.format(**{**PLAIN, **tests})})
        assert "pytest" not in task.gold["check"]
        assert passes(task, task.gold["code"])
        assert not passes(task, BUGGY)


def test_quixbugs_tests_on_nodes_need_the_helper_file(tmp_path: Path):
    file = write_entries(tmp_path, QUIXBUGS, NODES)
    source = CodeFileTasks(file)
    assert [task.id for task in every_task(source)] == ["quixbugs/total"]
    assert [(entry.where, entry.why) for entry in source.left_out] == [(f"{file}:2", Why.UNSUPPORTED)]
    write_entries(tmp_path, {"node.py": NODE}, name="support.json")
    source = CodeFileTasks(file)
    task = source.find("quixbugs/last")
    assert not source.left_out
    assert passes(task, task.gold["code"])
    assert not passes(task, NODES["buggy"])


def test_the_folder_of_the_quixbugs_repository_gives_the_same_tasks(tmp_path: Path):
    repository = tmp_path / "repo"
    for entry in (QUIXBUGS, NODES):
        for folder, field, name in (
            ("python_programs", "buggy", "{}.py"),
            ("correct_python_programs", "fixed", "{}.py"),
            ("python_testcases", "pytest", "test_{}.py"),
            ("json_testcases", "json_cases", "{}.json"),
        ):
            (repository / folder).mkdir(parents=True, exist_ok=True)
            if entry[field] is not None:
                (repository / folder / name.format(entry["id"])).write_text(entry[field], encoding="utf-8")
    for folder in ("python_programs", "python_testcases"):
        (repository / folder / "node.py").write_text(NODE, encoding="utf-8")
    write_entries(tmp_path, {"node.py": NODE}, name="support.json")
    lines, source = CodeFileTasks(write_entries(tmp_path, QUIXBUGS, NODES)), CodeFileTasks(repository)
    assert source.format == "quixbugs"
    assert [source.find(task.id) for task in every_task(lines)] == every_task(lines)
    assert len(every_task(source)) == 2


def test_unreadable_entries_are_named(tmp_path: Path):
    for entry in (
        {**HUMAN_EVAL, "entry_point": "third"},
        {**HUMAN_EVAL, "canonical_solution": "    return (\n"},
        {**MBPP, "code": "def widest(:\n"},
        {**MBPP, "test_list": []},
        {**MBPP, "test_list": "assert widest([]) == 0"},
        {**QUIXBUGS, "fixed": "def other(xs):\n    return 0\n"},
        {**QUIXBUGS, "json_cases": "[[[]], 0]\n[1, 2, 3]\n"},
    ):
        assert "data.jsonl:1: " in refusal(CodeFileTasks, write_entries(tmp_path, entry)), entry


def test_unknown_formats_are_refused_with_the_known_ones(tmp_path: Path):
    assert "humaneval, mbpp, gsm8k, quixbugs" in refusal(CodeFileTasks, write_entries(tmp_path, {"some": "thing"}))
    assert "quixbugs" in refusal(CodeFileTasks, write_entries(tmp_path, GSM8K), format="apps")


def test_reading_a_file_runs_none_of_its_code(tmp_path: Path):
    mark = tmp_path / "ran"
    bad = f"open({str(mark)!r}, 'w').close()\n"
    CodeFileTasks(write_entries(tmp_path, {**MBPP, "code": bad + MBPP["code"], "test_setup_code": bad}))
    CodeFileTasks(write_entries(tmp_path, {**HUMAN_EVAL, "test": bad + HUMAN_EVAL["test"]}))
    CodeFileTasks(write_entries(tmp_path, {**QUIXBUGS, "fixed": bad + QUIXBUGS["fixed"]}))
    assert not mark.exists()
