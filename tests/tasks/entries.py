"""Entries of task files in the formats of public data sets."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

from agentgym.core.task import Task, TaskSource, iterate

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


    @pytest.mark.parametrize("input_data,expected", testdata)
    def test_total(input_data, expected):
        {skip}
        assert {test}
""")
PLAIN = {"skip": "", "test": "total(*input_data) == expected"}
QUIXBUGS = {
    "id": "total",
    "buggy": BUGGY,
    "fixed": 'def total(xs):\n    return sum(xs)\n\n"""\nother forms\n"""\n',
    "pytest": TESTS.format(**PLAIN),
    "json_cases": "[[[]], 0]\n[[[1, 2]], 3]\n[[[5]], 5]\n",
}
OPEN = {"question": "who", "answer": ["x"]}
HOTPOT = {"_id": "h", "question": "q", "answer": "a", "context": [["T", ["One."]]], "supporting_facts": [["T", 0]]}
MUSIQUE = {
    "id": "m",
    "question": "q",
    "answer": "a",
    "paragraphs": [{"idx": 0, "title": "T", "paragraph_text": "One.", "is_supporting": True}],
    "question_decomposition": [{"paragraph_support_idx": 0}],
}


def write_entries(folder: Path, *entries: Any, name: str = "data.jsonl") -> Path:
    """Write a file of entries, one JSON value per line."""
    file = folder / name
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return file


def every_task(source: TaskSource) -> list[Task]:
    return [task for split in source.splits for task in iterate(source, split)]
