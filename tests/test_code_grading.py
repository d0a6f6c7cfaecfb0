"""Grading of code: what counts as equal, what a submission earns, and that no cheat earns anything."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agentgym.envs.code import CodeEnv
from agentgym.envs.code.canaries import perturbed
from agentgym.envs.code.matching import answer_matches, matches
from agentgym.envs.code.plain import Unfit, dumps, loads
from agentgym.errors import TaskError, ToolError
from agentgym.messages import ToolCall, assistant, text_of
from agentgym.task import Task, TaskList

CASES = {
    "cases": [
        {"args": "(3,)", "expect": "6"},
        {"args": "('ab',)", "expect": "'abab'"},
        {"args": "(-1,)", "expect": "-2"},
    ]
}
CHECK = """
def check(candidate):
    assert candidate(3) == 6
    assert candidate('ab') == 'abab'
    assert candidate(-1) == -2
"""
TOGETHER = """
class Box:
    def __init__(self, value):
        self.value = value

def check(candidate):
    assert candidate(Box(3).value) == 6
    assert candidate(Box('ab').value) == 'abab'
    assert candidate(Box(-1).value) == -2
    assert candidate(Box(Box(2)).value) is not None
"""
DOUBLE = "def double(x):\n    return 2 * x if not hasattr(x, 'value') else x\n"


def task(
    gold: dict[str, Any], code: str = DOUBLE, name: str = "double", prelude: str = "", examples: bool = True
) -> Task:
    data = {
        "kind": "function",
        "entry_point": name,
        "signature": f"def {name}(x):",
        "prelude": prelude,
        "examples": [{"args": "(2,)", "expect": "4"}] if examples and name == "double" else [],
    }
    return Task(id="t", split="train", prompt="Double it.", data=data, gold={"code": code, **gold})


@pytest.fixture(scope="module")
def grade() -> Iterator[Callable[..., dict[str, Any]]]:
    """Submit a source for a task; returns the info of the last step."""
    env = CodeEnv(tasks=TaskList([task(CASES)]), call_s=0.3)

    def submit(of: Task, source: str) -> dict[str, Any]:
        env.reset(options={"task": of})
        return env.step(assistant("", [ToolCall("submit", {"answer": source})])).info

    yield submit
    env.close()


# What counts as equal.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        (3.0, 3),
        (0.1 + 0.2, 0.3),
        (float("nan"), float("nan")),
        ([1, (2, {"a": 1.0})], [1, (2, {"a": 1})]),
        ({0.1 + 0.2, 2}, {2, 0.3}),
        ({2: "a", 1: "b"}, {1: "b", 2: "a"}),
        (frozenset({1}), {1}),
        (10**400, 10**400),
    ],
)
def test_values_that_mean_the_same_are_equal(value: Any, expected: Any):
    assert matches(value, expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, 1),
        (1, True),
        (3.1, 3),
        (3, 3.1),
        ("3", 3),
        ((1, 2), [1, 2]),
        ([1, 2], [1, 2, 3]),
        ({1: 2}, {1: 3}),
        ({1: 2}, {2: 2}),
        ({1, 2}, {1, 3}),
        (None, 0),
        (10**400, 1.5),
        (b"a", "a"),
        (float("nan"), 1.0),
    ],
)
def test_values_that_differ_are_not_equal(value: Any, expected: Any):
    assert not matches(value, expected)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("42", 42), (" 'a b' ", "a b"), ("a b", "a b"), ("1, 2", [1, 2]), ("true", True), ("[3.0]", [3]), ("None", None)],
)
def test_a_written_answer_needs_no_perfect_form(answer: str, expected: Any):
    assert answer_matches(answer, expected)


@pytest.mark.parametrize(
    "answer", ["41", "forty-two", "42 apples", "[42]", "(" * 5000, "__import__('os')", "\x00", "\ud800"]
)
def test_a_wrong_answer_is_wrong_whatever_it_looks_like(answer: str):
    assert not answer_matches(answer, 42)


def test_an_endless_answer_is_refused():
    with pytest.raises(ToolError, match="characters"):
        answer_matches("9" * 30_000, 9)


# What may leave a sandbox.


@pytest.mark.parametrize(
    "value", [None, True, -7, 2**80, 1.5, "é\ud800", b"\x00", [1, (2,)], {(1, 2): {3}}, frozenset("a"), range(3), 2j]
)
def test_plain_values_travel_without_loss(value: Any):
    again = loads(dumps(value))
    assert again == value
    assert type(again) is type(value)


def test_subclasses_lose_what_they_override():
    class Sly(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    assert type(loads(dumps([Sly(3)]))[0]) is int
    assert loads(dumps([Sly(3)])) == [3]


@pytest.mark.parametrize(
    "text", ["", "{}", '["q"]', "[]", '["d", [1]]', '["s", ["l"]]', "[" * 100_000, '["i", 5]', "1.5"]
)
def test_text_that_is_no_tree_is_refused(text: str):
    with pytest.raises(Unfit):
        loads(text)


# What a submission earns.

KINDS = {"cases": CASES, "replay": {"check": CHECK}, "canaries": {"check": TOGETHER}}


@pytest.mark.parametrize("how", KINDS)
def test_right_functions_earn_everything(grade: Callable[..., dict[str, Any]], how: str):
    info = grade(task(KINDS[how]), "# again\n" + DOUBLE)
    assert (info["is_success"], info["grading"]) == (True, how)
    assert info["rewards"]["visible"] == info["rewards"]["hidden"] == 1.0


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize(
    "source",
    [
        "def double(x):\n    return x + 2",
        "def double(x):\n    return None",
        "def double(x):\n    return 4",
        "def double(x):\n    return 2 * x if x != -1 else 2",
        "def double(x):\n    raise ValueError(x)",
    ],
)
def test_wrong_functions_do_not_pass(grade: Callable[..., dict[str, Any]], how: str, source: str):
    info = grade(task(KINDS[how]), source)
    assert not info["is_success"]
    assert info["rewards"]["hidden"] < 1.0


def test_hidden_says_how_many_tests_pass(grade: Callable[..., dict[str, Any]]):
    nearly = "def double(x):\n    return 2 * x if x != -1 else 2"
    for how in ("cases", "replay"):
        rewards = grade(task(KINDS[how]), nearly)["rewards"]
        assert (rewards["visible"], rewards["hidden"]) == (1.0, pytest.approx(2 / 3))


ARGUMENTS = "import json, os\nFD = int(os.environ['AGENTGYM_REPLY_FD'])\n"
EQUAL = "class Equal:\n    def __eq__(self, other):\n        return True\n    __ne__ = lambda self, other: False\n"
CHEATS = {
    "leaves": "import os\nos._exit(0)",
    "leaves when called": "import os\ndef double(x):\n    os._exit(0)",
    "exits when called": "import sys\ndef double(x):\n    sys.exit(0)",
    "prints results": 'def double(x):\n    print(\'{"number": 0, "value": 6}\\n{"verdict": "passed"}\')',
    "writes frames": ARGUMENTS
    + "lines = [{'number': n, 'value': None, 'verdict': 'passed', 'message': ''} for n in range(9)]\n"
    + "os.write(FD, ''.join(json.dumps(line) + '\\n' for line in lines).encode())\n"
    + "def double(x):\n    return None",
    "writes a verdict and leaves": ARGUMENTS
    + 'def double(x):\n    os.write(FD, b\'{"verdict": "passed", "message": ""}\\n\')\n    os._exit(0)',
    "always equal": EQUAL + "def double(x):\n    return Equal()",
    "sly number": EQUAL
    + "class Sly(int):\n    __eq__ = Equal.__eq__\n    __hash__ = int.__hash__\n"
    + "def double(x):\n    return Sly(5)",
    "sly text": EQUAL
    + "class Sly(str):\n    __eq__ = Equal.__eq__\n    __hash__ = str.__hash__\n"
    + "def double(x):\n    return Sly('no')",
    "patches": 'import builtins, json\njson.dumps = lambda *a, **k: \'{"verdict": "passed"}\'\n'
    "builtins.repr = str = lambda x: '6'\nbuiltins.type = lambda x: int\ndef double(x):\n    return object()",
    "patches the runner": "import sys\nfor name, module in list(sys.modules.items()):\n"
    "    for key in ('encode', 'decode', 'dumps', '_outcome', '_run_check'):\n"
    "        if key in getattr(module, '__dict__', {}):\n            setattr(module, key, lambda *a: {'value': 6})\n"
    "def double(x):\n    return None",
    "reads frames": "import gc, sys\ndef double(x):\n    frame, found = sys._getframe(1), []\n    while frame:\n"
    "        found += [v for k, v in {**frame.f_globals, **frame.f_locals}.items() if 'expect' in k]\n"
    "        found += [c for c in frame.f_code.co_consts if c not in (x, None) and frame.f_code.co_name == 'check']\n"
    "        frame = frame.f_back\n"
    "    found += [o['expect'] for o in gc.get_objects() if type(o) is dict and 'expect' in o]\n"
    "    return found[0] if found else None",
    "registers for the end": ARGUMENTS
    + 'import atexit\natexit.register(os.write, FD, b\'{"verdict": "passed"}\\n\')\ndef double(x):\n    return None',
    "goes on in a thread": ARGUMENTS
    + "import threading\ndef flood():\n    while True:\n"
    + '        os.write(FD, b\'{"verdict": "passed", "number": 1}\\n\')\n'
    + "threading.Thread(target=flood).start()\ndef double(x):\n    return None",
    "floods": ARGUMENTS + "def double(x):\n    while True:\n        os.write(FD, b'x' * 60_000)",
    "ends the sandbox": "import os, signal\ndef double(x):\n    os.kill(os.getppid(), signal.SIGKILL)",
    "closes the reply": ARGUMENTS + "os.close(FD)\ndef double(x):\n    return 2 * x",
    "drops the asserts": "import builtins\nbuiltins.AssertionError = type('Quiet', (Exception,), {})\n"
    "def double(x):\n    return 0",
}


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("cheat", CHEATS)
def test_cheats_earn_nothing(grade: Callable[..., dict[str, Any]], how: str, cheat: str):
    # Without examples, which most of these would fail before the hidden tests are looked at.
    info = grade(task(KINDS[how], examples=False), CHEATS[cheat])
    assert info["rewards"]["outcome"] == info["rewards"]["hidden"] == 0.0
    assert not info.get("is_success", False)


@pytest.mark.parametrize(
    "source",
    [
        "def double(x):\n    while True:\n        pass",
        "def double(x):\n    while True:\n        try:\n            while True:\n                pass\n"
        "        except BaseException:\n            pass",
        "def double(x):\n    return bytearray(10**12)",
        "def double(x):\n    return [0] * (10**7) + list(range(10**9))",
        "def double(x):\n    return double(x)",
        "x = 9 ** 9 ** 9\ndef double(x):\n    return x",
    ],
)
def test_what_takes_forever_or_too_much_ends_and_earns_nothing(grade: Callable[..., dict[str, Any]], source: str):
    assert not grade(task(CASES), source)["is_success"]


def test_files_of_earlier_episodes_are_not_there(grade: Callable[..., dict[str, Any]]):
    source = (
        "import os\nPLACES = ('found.txt', '/tmp/found.txt', '/dev/shm/found.txt')\n"
        "def double(x):\n    if any(map(os.path.exists, PLACES)):\n        return None\n    return 2 * x\n"
        "def leave():\n    for place in PLACES:\n        try:\n            open(place, 'w').close()\n"
        "        except OSError:\n            pass\n"
    )
    assert grade(
        task(CASES), source + "double_ = double\ndef double(x):\n    leave_it = 2 * x\n    leave()\n    return leave_it"
    )
    assert grade(task(CASES), source)["is_success"]


# Checks that meet what a function did in another sandbox.


def test_a_check_sees_exceptions_changed_arguments_and_iterators(grade: Callable[..., dict[str, Any]]):
    check = """
def check(candidate):
    items = [3, 1, 2]
    assert list(candidate(items)) == [1, 2, 3]
    assert items == [1, 2, 3]
    try:
        candidate(None)
    except TypeError:
        pass
    else:
        assert False
"""
    gold = "def walk(x):\n    if x is None:\n        raise TypeError('no')\n    x.sort()\n    return (i for i in x)\n"
    of = task({"check": check}, gold, "walk")
    assert grade(of, f"# mine\n{gold}")["grading"] == "replay"
    assert grade(of, f"# mine\n{gold}")["is_success"]
    for wrong in ("    x = sorted(x)\n", "    x = list(x)\n"):
        assert not grade(of, gold.replace("    x.sort()\n", wrong))["is_success"]
    assert not grade(of, gold.replace("TypeError", "ValueError"))["is_success"]


def test_a_check_may_go_on_from_what_the_function_gave(grade: Callable[..., dict[str, Any]]):
    check = (
        "def check(candidate):\n    x = 1\n    for _ in range(3):\n        x = candidate(x)\n    assert x in (8, 27)\n"
    )
    of = task({"check": check}, "def grow(x):\n    return 2 * x\n", "grow")
    assert grade(of, "def grow(x):\n    return 3 * x\n")["is_success"]
    assert not grade(of, "def grow(x):\n    return 4 * x\n")["is_success"]


def test_a_check_that_draws_its_arguments_draws_the_same_again(grade: Callable[..., dict[str, Any]]):
    check = "import random\ndef check(candidate):\n    x = random.random()\n    assert candidate(x) == x * 3\n"
    of = task({"check": check}, "def triple(x):\n    return x * 3\n", "triple")
    assert grade(of, "def triple(x):\n    return 3 * x\n")["is_success"]


def test_the_source_of_the_task_is_there_for_the_function_and_the_check(grade: Callable[..., dict[str, Any]]):
    check = "def check(candidate):\n    assert candidate(2) == helper(3) == later(2)\n"
    of = task(
        {"check": check},
        "def later(x):\n    return helper(x + 1)\n",
        "later",
        prelude="def helper(x):\n    return -x\n",
    )
    assert grade(of, "def later(x):\n    return helper(x + 1)\n")["is_success"]


def test_a_gold_that_fails_its_own_check_is_told(grade: Callable[..., dict[str, Any]]):
    with pytest.raises(TaskError, match="own check"):
        grade(task({"check": CHECK}, "def double(x):\n    return x\n"), DOUBLE)


def test_gold_that_is_no_literal_is_told(grade: Callable[..., dict[str, Any]]):
    with pytest.raises(TaskError, match="case 1"):
        grade(task({"cases": [{"args": "(x,)", "expect": "1"}]}), DOUBLE)


def test_perturbed_copies_of_a_check_differ_in_one_expectation_each():
    copies = list(perturbed(TOGETHER))
    assert len(copies) == len(set(copies)) == 4
    original = ast.unparse(ast.parse(TOGETHER)).splitlines()
    for copy in copies:
        assert sum(a != b for a, b in zip(original, copy.splitlines(), strict=True)) == 1


def test_what_keeps_an_answer_from_being_judged_is_told_and_may_be_corrected():
    env = CodeEnv(tasks=TaskList([task(CASES)]))
    for source, told in (
        ("def double(x:", "line 1"),
        ("import nothing_like_this", "nothing_like_this"),
        ("def other(x):\n    return x", "'double'"),
    ):
        env.reset(seed=0)
        step = env.step(assistant("", [ToolCall("submit", {"answer": source})]))
        assert told in text_of(step.observation[-1])
        assert env.reason is None
    assert env.step(assistant("", [ToolCall("submit", {"answer": f"```python\n{DOUBLE}```"})])).info["is_success"]
    env.close()
