"""Files in the formats of public code benchmarks as task sources."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agentgym.envs.code import CodeEnv
from agentgym.errors import UsageError
from agentgym.task import Task, iterate
from agentgym.task_files.left_out import Why
from agentgym.tasks.code.files import CodeFileTasks

HUMAN_EVAL = {
    "task_id": "HumanEval/7",
    "prompt": dedent('''
        from typing import List


        def double(x: int) -> int:
            return 2 * x


        def second(numbers: List[int],
                   low: int) -> int:
            """Return twice the second number above low.
            >>> second([1, 5, 9], 2)
            18
            >>> second([4, 4], 0)
            7
            second([3, 8, 9], 5) ➞ 18
            >>> second(make(), 0)
            0
            """
    '''),
    "entry_point": "second",
    "canonical_solution": "    return double([x for x in numbers if x > low][1])\n",
    "test": "def check(candidate):\n    assert candidate([4, 4], 0) == 8\n"
    "    assert candidate([7, 1, 8], 2) == double(8)\n"
    "    assert second([1, 2, 3], 0) == 4\n",
}
MBPP = {
    "task_id": 11,
    "text": "Write a function to find the widest pair.",
    "code": "import math\nclass Pair(object):\r\n    def __init__(self, a, b):\n"
    "        self.a, self.b = a, math.floor(b)\n"
    "def gap(p):\n    return p.b - p.a\ndef widest(pairs):\n    return max(gap(p) for p in pairs)\n",
    "test_list": ["assert widest([Pair(1, 5), Pair(2, 3)]) == 4", "assert widest([Pair(0, one)]) == 1"],
    "test_setup_code": "one = 1",
    "challenge_test_list": ["assert widest([Pair(7, 7)]) == 0"],
}
SANITIZED = {
    "source_file": "x",
    "task_id": 12,
    "prompt": "Write a function that halves a number.",
    "code": "def half(x):\n  return x / 2",
    "test_imports": ["import math"],
    "test_list": ["assert half(3) == 1.5", "assert math.isclose(half(5), 2.5)"],
}
GSM8K = {"question": "One and one thousand?", "answer": "1+1000 = <<1+1000=1001>>1001\n#### 1,001"}
BUGGY = 'def total(xs):\n    return sum(xs) + 1\n\n\n"""\nTotal\n\nExamples:\n    >>> total([1, 2])\n    3\n"""\n'
TESTS = dedent("""
    import pytest
    from load_testdata import load_json_testcases

    if pytest.use_correct:
        from correct_python_programs.total import total
    else:
        from python_programs.total import total


    testdata = load_json_testcases(total.__name__)
    {change}


    @pytest.mark.parametrize("input_data,expected", testdata)
    def test_total(input_data, expected):
        {skip}
        assert {test}
""")
PLAIN = {"change": "", "skip": "", "test": "total(*input_data) == expected"}
QUIXBUGS = {
    "id": "total",
    "buggy": BUGGY,
    "fixed": 'def total(xs):\n    return sum(xs)\n\n"""\nother forms\n"""\n',
    "pytest": TESTS.format(**PLAIN),
    "json_cases": "[[[]], 0]\n[[[1, 2]], 3]\n[[[5]], 5]\n",
}
NODES = {
    "id": "last",
    "buggy": "def last(node):\n    return node.value\n",
    "fixed": "def last(node):\n    while node.next:\n        node = node.next\n    return node.value\n",
    "pytest": "import pytest\nfrom node import Node\n\none = Node(1, Node(2))\n\n\n"
    "def test1():\n    assert last(one) == 2\n\n\n"
    "def test2():\n    expected = 5\n    assert last(Node(5)) == expected\n",
    "json_cases": None,
}
NODE = "class Node:\n    def __init__(self, value, next=None):\n        self.value, self.next = value, next\n"


def written(folder: Path, *entries: Any, name: str = "data.jsonl") -> Path:
    file = folder / name
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return file


def every_task(source: CodeFileTasks) -> list[Task]:
    return [task for split in source.splits for task in iterate(source, split)]


def passes(task: Task, code: str) -> bool:
    """Whether source passes the task's examples, hidden cases and check. The check sees only the prelude."""
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


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        (HUMAN_EVAL, "def second(numbers, low): return 8"),
        (MBPP, "def widest(pairs): return 4"),
        (SANITIZED, "def half(x): return x // 2"),
        (QUIXBUGS, BUGGY),
    ],
)
def test_gold_passes_and_wrong_code_fails(tmp_path: Path, entry: dict[str, Any], wrong: str):
    (task,) = every_task(CodeFileTasks(written(tmp_path, entry)))
    assert passes(task, task.gold["code"])
    assert not passes(task, wrong)
    assert json.loads(json.dumps(task.to_dict())) == task.to_dict()


def test_human_eval_shows_examples_that_are_literals_and_right(tmp_path: Path):
    (task,) = every_task(CodeFileTasks(written(tmp_path, HUMAN_EVAL), format="humaneval"))
    assert task.id == "humaneval/7"
    assert task.data["examples"] == [
        {"args": "([1, 5, 9], 2)", "expect": "18"},
        {"args": "([3, 8, 9], 5)", "expect": "18"},
    ]
    assert task.data["signature"] == "def second(numbers: List[int], low: int) -> int:"
    assert "def double" in task.data["prelude"]
    assert "def second" not in task.data["prelude"]


def test_mbpp_checks_keep_helpers_setup_and_challenge_tests(tmp_path: Path):
    (task,) = every_task(CodeFileTasks(written(tmp_path, MBPP)))
    assert (task.data["entry_point"], task.data["signature"]) == ("widest", "def widest(pairs):")
    assert "class Pair" in task.data["prelude"]
    assert "import math" in task.data["prelude"]
    assert "gap" not in task.data["prelude"]
    assert task.gold["check"].count("assert candidate(") == 3
    assert "one = 1" in task.gold["check"]
    assert MBPP["test_list"][0] in task.prompt


def test_sanitized_mbpp_shows_its_first_test_as_an_example(tmp_path: Path):
    (task,) = every_task(CodeFileTasks(written(tmp_path, SANITIZED)))
    assert task.data["examples"] == [{"args": "(3,)", "expect": "1.5"}]
    assert task.gold["check"].startswith("import math\n")


@pytest.mark.parametrize(
    ("end", "answer"), [("#### 1,001", "1001"), ("#### -3", "-3"), ("#### 2.50", "2.5"), ("#### $7", "7")]
)
def test_gsm8k_answers_are_numbers(tmp_path: Path, end: str, answer: str):
    (task,) = every_task(CodeFileTasks(written(tmp_path, {**GSM8K, "answer": f"so <<1+1=2>>\n{end}"})))
    assert task.gold == {"answer": answer, "code": f"print({answer})\n"}
    assert task.data == {"kind": "value", "needs_code": False}


def test_quixbugs_json_cases_are_hidden_but_for_those_shown(tmp_path: Path):
    (task,) = every_task(CodeFileTasks(written(tmp_path, QUIXBUGS)))
    assert task.data["examples"] == [{"args": "([1, 2],)", "expect": "3"}]
    assert [case["args"] for case in task.gold["cases"]] == ["([],)", "([5],)"]
    assert task.data["kind"] == "fix"
    assert '"""' not in task.data["code"]
    assert "other forms" not in task.gold["code"]


@pytest.mark.parametrize(
    "tests",
    [
        {"test": "list(total([*input_data[0]]) for _ in 'a') == [expected]"},
        {"test": "total(*input_data) == pytest.approx(expected, abs=0.5)"},
        {"change": "testdata = [[inp, out + 0] for inp, out in testdata]"},
        {"skip": "expected = expected + 0"},
    ],
)
def test_quixbugs_tests_that_do_more_become_a_check(tmp_path: Path, tests: dict[str, str]):
    entry = {**QUIXBUGS, "pytest": TESTS.format(**{**PLAIN, **tests})}
    (task,) = every_task(CodeFileTasks(written(tmp_path, entry)))
    assert "pytest" not in task.gold["check"]
    assert passes(task, task.gold["code"])
    assert not passes(task, BUGGY)


def test_quixbugs_cases_that_upstream_skips_are_not_asked(tmp_path: Path):
    skip = 'if not pytest.run_slow and input_data == [[5]]:\n        pytest.skip("slow")'
    entry = {**QUIXBUGS, "pytest": TESTS.format(**{**PLAIN, "skip": skip})}
    (task,) = every_task(CodeFileTasks(written(tmp_path, entry)))
    assert [case["args"] for case in task.gold["cases"]] == ["([],)", "([1, 2],)"]
    assert task.data["examples"] == []


def test_quixbugs_tests_on_nodes_become_a_check_if_the_helper_is_there(tmp_path: Path):
    file = written(tmp_path, QUIXBUGS, NODES)
    source = CodeFileTasks(file)
    assert [task.id for task in every_task(source)] == ["quixbugs/total"]
    assert [(entry.where, entry.why) for entry in source.left_out] == [(f"{file}:2", Why.UNSUPPORTED)]
    CodeFileTasks(file, strict=True)
    written(tmp_path, {"node.py": NODE}, name="support.json")
    source = CodeFileTasks(file)
    task = source.find("quixbugs/last")
    assert not source.left_out
    assert passes(task, task.gold["code"])
    assert not passes(task, NODES["buggy"])


def test_the_folder_of_the_quixbugs_repository_gives_the_same_tasks(tmp_path: Path):
    for entry in (QUIXBUGS, NODES):
        for folder, field, name in (
            ("python_programs", "buggy", "{}.py"),
            ("correct_python_programs", "fixed", "{}.py"),
            ("python_testcases", "pytest", "test_{}.py"),
            ("json_testcases", "json_cases", "{}.json"),
        ):
            (tmp_path / "repo" / folder).mkdir(parents=True, exist_ok=True)
            if entry[field] is not None:
                (tmp_path / "repo" / folder / name.format(entry["id"])).write_text(entry[field], encoding="utf-8")
    for place in ("python_programs", "python_testcases"):
        (tmp_path / "repo" / place / "node.py").write_text(NODE, encoding="utf-8")
    written(tmp_path, {"node.py": NODE}, name="support.json")
    lines = CodeFileTasks(written(tmp_path, QUIXBUGS, NODES))
    folder = CodeFileTasks(tmp_path / "repo")
    assert folder.format == "quixbugs"
    assert [folder.find(task.id) for task in every_task(lines)] == every_task(lines)
    assert len(every_task(folder)) == 2


def test_files_named_by_split_are_the_splits(tmp_path: Path):
    written(tmp_path, GSM8K, {**GSM8K, "question": "Again?"}, name="train.jsonl")
    written(tmp_path, GSM8K, {**GSM8K, "question": "Once more?"}, name="test.jsonl")
    source = CodeFileTasks(tmp_path)
    assert {split: source.size(split) for split in source.splits} == {"train": 2, "test": 1}
    (twin,) = source.left_out
    assert (twin.where, twin.why) == (f"{tmp_path / 'test.jsonl'}:1", Why.REPEATED)
    assert f"it repeats {tmp_path / 'train.jsonl'}:1" in str(twin)


def test_one_file_is_split_by_content_the_same_way_always(tmp_path: Path):
    entries = [{**GSM8K, "question": f"What is {n} + 1?", "answer": f"#### {n + 1}"} for n in range(300)]
    source, twin = CodeFileTasks(written(tmp_path, *entries)), CodeFileTasks(written(tmp_path, *entries[::-1]))
    assert set(source.splits) == {"train", "validation", "test"}
    assert source.size("train") > 200
    for split in source.splits:
        prompts = {task.prompt for task in iterate(source, split)}
        assert prompts == {task.prompt for task in iterate(twin, split)}


def test_all_tasks_can_be_put_in_one_split(tmp_path: Path):
    source = CodeFileTasks(written(tmp_path, HUMAN_EVAL), split_by="test")
    assert source.splits == ("test",)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{not json", "not JSON"),
        ("[1]", "a JSON object is expected on each line, not a list"),
        ('{"question": "How many?", "answer": "#### many"}', "'#### ' and a number"),
        ('{"question": "How many?", "answer": "5"}', "'#### ' and a number"),
        ('{"question": "", "answer": "#### 5"}', "no text under 'question'"),
    ],
)
def test_a_garbled_line_is_left_out_and_named(tmp_path: Path, line: str, said: str):
    file = written(tmp_path, GSM8K)
    file.write_text(file.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    source = CodeFileTasks(file)
    assert [task.id for task in every_task(source)] == ["gsm8k/data/1"]
    (entry,) = source.left_out
    assert (entry.where, entry.why) == (f"{file}:2", Why.BROKEN)
    assert said in entry.reason
    with pytest.raises(UsageError, match=r"data\.jsonl:2: .*" + said):
        CodeFileTasks(file, strict=True)


@pytest.mark.parametrize(
    "entry",
    [
        {**HUMAN_EVAL, "entry_point": "third"},
        {**HUMAN_EVAL, "canonical_solution": "    return (\n"},
        {**MBPP, "code": "def widest(:\n"},
        {**MBPP, "test_list": []},
        {**MBPP, "test_list": "assert widest([]) == 0"},
        {**QUIXBUGS, "fixed": "def other(xs):\n    return 0\n"},
        {**QUIXBUGS, "json_cases": "[[[]], 0]\n[1, 2, 3]\n"},
    ],
)
def test_entries_that_cannot_be_read_are_named(tmp_path: Path, entry: dict[str, Any]):
    with pytest.raises(UsageError, match=r"data\.jsonl:1: "):
        CodeFileTasks(written(tmp_path, entry))


def test_missing_empty_and_unknown_files_are_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="no file or folder"):
        CodeFileTasks(tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match=r"data\.jsonl: the file holds no entry"):
        CodeFileTasks(written(tmp_path))
    with pytest.raises(UsageError, match="humaneval, mbpp, gsm8k, quixbugs"):
        CodeFileTasks(written(tmp_path, {"some": "thing"}))
    (tmp_path / "bad.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"bad\.jsonl: no entry of 1 can be used; .*bad\.jsonl:1: not UTF-8 text"):
        CodeFileTasks(tmp_path / "bad.jsonl")


def test_unknown_choices_are_refused_with_the_valid_ones(tmp_path: Path):
    file = written(tmp_path, GSM8K)
    with pytest.raises(UsageError, match="quixbugs"):
        CodeFileTasks(file, format="apps")
    with pytest.raises(UsageError, match="validation"):
        CodeFileTasks(file, split_by="dev")
    with pytest.raises(UsageError, match=r"format=\.\.\. is for tasks from files; pass file="):
        CodeEnv(format="mbpp")


def test_nothing_in_a_file_is_run(tmp_path: Path):
    mark = tmp_path / "ran"
    bad = f"open({str(mark)!r}, 'w').close()\n"
    entries = [{**MBPP, "code": bad + MBPP["code"], "test_setup_code": bad}]
    CodeFileTasks(written(tmp_path, *entries))
    CodeFileTasks(written(tmp_path, {**HUMAN_EVAL, "test": bad + HUMAN_EVAL["test"]}))
    CodeFileTasks(written(tmp_path, {**QUIXBUGS, "fixed": bad + QUIXBUGS["fixed"]}))
    assert not mark.exists()


# As published, and as it comes.


def test_mbpp_is_read_however_its_functions_are_written(tmp_path: Path):
    forms = {
        "def half (x):\r\n    return x / 2": "def half(x):",
        "def half(x): return x / 2": "def half(x):",
        "def half(\n    x\n):\n  return x / 2": "def half(x):",
        "@staticmethod\ndef half(x: int=4) -> float:  # asked\n  return x / 2": "def half(x: int=4) -> float:",
    }
    entries = [{**SANITIZED, "task_id": n, "prompt": f"{n}", "code": code} for n, code in enumerate(forms, start=1)]
    tasks = {task.id: task for task in every_task(CodeFileTasks(written(tmp_path, *entries), strict=True))}
    assert [tasks[f"mbpp/{n}"].data["signature"] for n in range(1, 5)] == [*forms.values()]
    assert not any("x / 2" in task.prompt for task in tasks.values())


def test_mbpp_is_divided_as_published(tmp_path: Path):
    numbers = {1: "train", 10: "train", 11: "test", 510: "test", 511: "validation", 600: "validation", 601: "train"}
    entries = [{**SANITIZED, "task_id": number, "prompt": f"{number}"} for number in numbers]
    source = CodeFileTasks(written(tmp_path, *entries))
    assert {number: source.find(f"mbpp/{number}").split for number in numbers} == numbers
    assert CodeFileTasks(written(tmp_path, *entries), split_by="train").splits == ("train",)


def test_the_sanitized_mbpp_is_a_list(tmp_path: Path):
    file = tmp_path / "sanitized-mbpp.json"
    file.write_text(json.dumps([SANITIZED, {**SANITIZED, "task_id": 13, "prompt": None}]), encoding="utf-8")
    source = CodeFileTasks(file)
    assert [task.id for task in every_task(source)] == ["mbpp/12"]
    (entry,) = source.left_out
    assert str(entry).startswith(f"{file}: item 1: no text under 'text' or 'prompt'")


def test_parquet_is_read(tmp_path: Path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pytest.importorskip("pyarrow").Table.from_pylist([GSM8K])
    (tmp_path / "main").mkdir()
    parquet.write_table(table, tmp_path / "main" / "test-00000-of-00001.parquet")
    source = CodeFileTasks(tmp_path / "main")
    assert (source.splits, source.size("test")) == (("test",), 1)
    (tmp_path / "main" / "test-00000-of-00001.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(UsageError, match=r"test-00000-of-00001\.parquet: cannot be read as Parquet"):
        CodeFileTasks(tmp_path / "main")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xef\xbb\xbf" + json.dumps(GSM8K).encode(), None),
        (
            json.dumps(GSM8K).encode() + b'\n{"question": "caf\xe9?", "answer": "#### 1"}\n',
            "data.jsonl:2: not UTF-8 text",
        ),
        (
            json.dumps(GSM8K).encode() + b"\n" + json.dumps({**GSM8K, "question": "\ud800"}).encode(),
            "data.jsonl:2: its text",
        ),
        (
            json.dumps(GSM8K).encode() + b'\n{"question": null, "answer": "#### 1"}',
            "data.jsonl:2: no text under 'question'",
        ),
        (json.dumps(GSM8K).encode() + b"\nnull", "data.jsonl:2: a JSON object is expected"),
    ],
)
def test_odd_bytes_and_values_leave_out_their_entry_alone(tmp_path: Path, data: bytes, said: str | None):
    file = tmp_path / "data.jsonl"
    file.write_bytes(data)
    source = CodeFileTasks(file)
    assert len(every_task(source)) == 1
    assert [str(entry) for entry in source.left_out if said is None or said not in str(entry)] == []
    assert len(source.left_out) == (said is not None)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ('[{"question": "café?"}]'.encode("latin-1"), r"data\.json:1: not UTF-8 text \(byte 0xe9\); convert"),
        (b'["\0"]', r"data\.json: a binary file, not text"),
        (b"[", r"data\.json: not JSON"),
        (b'{"data": []}', r"data\.json: expected a list of entries, not one object with \['data'\]"),
        (b"[]", r"data\.json: the file holds no entry"),
        (b"", r"data\.json: the file holds no entry"),
        (
            b"[null, 3]",
            r"data\.json: no entry of 2 can be used; the first: .*item 0: an entry must be an object, not null",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_told_in_one_line(tmp_path: Path, data: bytes, said: str):
    (tmp_path / "data.json").write_bytes(data)
    with pytest.raises(UsageError, match=said) as told:
        CodeFileTasks(tmp_path / "data.json")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("empty", ["", "\n\n", "[]"])
def test_an_empty_test_file_does_not_turn_training_tasks_into_test_tasks(tmp_path: Path, empty: str):
    written(tmp_path, *({**GSM8K, "question": f"{n}?"} for n in range(50)), name="train.jsonl")
    (tmp_path / "test.jsonl").write_text(empty, encoding="utf-8")
    with pytest.raises(UsageError, match=r"test\.jsonl: the file holds no entry"):
        CodeFileTasks(tmp_path)


def test_a_folder_with_nothing_but_a_dev_file_is_played_in_its_one_split(tmp_path: Path):
    written(tmp_path, GSM8K, name="dev.jsonl")
    env = CodeEnv(file=tmp_path)
    assert (env.tasks.splits, env.split) == (("validation",), "validation")
    env.reset(seed=0)
    env.close()


def test_a_data_set_that_comes_whole_and_divided_keeps_its_division(tmp_path: Path):
    few, more = ([{**GSM8K, "question": f"{n}?"} for n in numbers] for numbers in (range(3), range(3, 9)))
    written(tmp_path, *few, *more, name="all.jsonl")
    written(tmp_path, *few, name="all_fewshot.jsonl")
    written(tmp_path, *more, name="all_test.jsonl")
    source = CodeFileTasks(tmp_path)
    assert {split: source.size(split) for split in source.splits} == {"train": 3, "test": 6}
    assert {(entry.why, entry.where.partition(":")[0]) for entry in source.left_out} == {
        (Why.REPEATED, str(tmp_path / "all.jsonl"))
    }


def test_one_entry_of_another_form_does_not_decide_what_a_file_is(tmp_path: Path):
    source = CodeFileTasks(written(tmp_path, {"comment": "by hand"}, GSM8K))
    assert (source.format, len(source.left_out)) == ("gsm8k", 1)
