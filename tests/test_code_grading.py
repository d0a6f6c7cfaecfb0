"""Grading of code: what a submission earns, that no cheat earns anything, and that time is shared."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from random import Random
from typing import Any

import pytest

from agentgym.endings import Reason
from agentgym.envs.code import CodeEnv
from agentgym.envs.code.asking import ask
from agentgym.envs.code.budget import CPU_S, Budget
from agentgym.envs.code.calls import Submission
from agentgym.envs.code.canaries import perturbed
from agentgym.envs.code.grading import Grader
from agentgym.envs.code.withheld import withheld
from agentgym.errors import TaskError, UsageError
from agentgym.messages import ToolCall, assistant, text_of
from agentgym.task import Task, TaskList
from agentgym.tools.sandbox import Sandbox, SandboxLimits, open_sandbox

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


@pytest.mark.parametrize(("call_s", "taken"), [(0.0, False), (-1.0, False), (CPU_S, True), (CPU_S + 0.1, False)])
def test_a_call_has_some_time_and_no_more_than_a_submission(call_s: float, taken: bool):
    with nullcontext() if taken else pytest.raises(UsageError, match="call_s must be above 0 and at most"):
        Grader(open_sandbox, SandboxLimits(), call_s)


@pytest.mark.parametrize(
    ("source", "passed", "told"),
    [
        (DOUBLE, 2, ["2 of 2 examples pass."]),
        ("def double(x):\n    return 6", 1, ["1 of 2 examples pass.", "double(2) returned 6; expected 4"]),
        (
            "def double(x):\n    raise ValueError('no')",
            0,
            ["0 of 2 examples pass.", "double(2) raised ValueError", "double(3) raised ValueError"],
        ),
    ],
)
def test_examples_are_counted_and_those_that_fail_are_shown(source: str, passed: int, told: list[str]):
    of = task(CASES)
    of.data["examples"].append({"args": "(3,)", "expect": "6"})
    with open_sandbox() as sandbox:
        count, report = Grader(open_sandbox, SandboxLimits(), 0.3).examples(of, Submission(source, "double"), sandbox)
    assert count == passed
    lines = report.splitlines()
    assert len(lines) == len(told)
    assert all(line.startswith(start) for line, start in zip(lines, told, strict=True))


@pytest.mark.parametrize(("calls", "hidden"), [(1, 0.0), (2, 0.5), (4, 0.75)])
def test_a_check_that_fails_on_results_that_are_all_alike_does_not_pass_in_full(
    grade: Callable[..., dict[str, Any]], calls: int, hidden: float
):
    asserts = "\n".join(f"    assert candidate({n}) == 0.1 * {n} + 0.2" for n in range(1, calls + 1))
    of = task(
        {"check": f"def check(candidate):\n{asserts}\n"}, "def double(x):\n    return 0.1 * x + 0.2\n", examples=False
    )
    rewards = grade(of, "def double(x):\n    return 0.1 * x + 0.2 + 1e-12\n")["rewards"]
    assert rewards["outcome"] == 0.0
    assert rewards["hidden"] == pytest.approx(hidden)


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


def test_a_gold_that_fails_its_own_check_is_reported(grade: Callable[..., dict[str, Any]]):
    with pytest.raises(TaskError, match="own check"):
        grade(task({"check": CHECK}, "def double(x):\n    return x\n"), DOUBLE)


def test_gold_that_is_no_literal_is_reported(grade: Callable[..., dict[str, Any]]):
    with pytest.raises(TaskError, match="case 1"):
        grade(task({"cases": [{"args": "(x,)", "expect": "1"}]}), DOUBLE)


def test_perturbed_copies_of_a_check_differ_in_one_expectation_each():
    copies = list(perturbed(TOGETHER, Random(0)))
    assert len(copies) == len(set(copies)) == 3  # not the one that many values meet
    original = ast.unparse(ast.parse(TOGETHER)).splitlines()
    for copy in copies:
        assert sum(a != b for a, b in zip(original, copy.splitlines(), strict=True)) == 1


def test_changed_expectations_go_up_and_down_and_stay_of_their_kind():
    check = "def check(candidate):\n    assert candidate(1) == 50\n    assert candidate(2) == 'word'\n"
    found: list[Any] = []
    for seed in range(40):
        for copy in perturbed(check, Random(seed)):
            body = ast.parse(copy).body[0]
            assert isinstance(body, ast.FunctionDef)
            values = [ast.literal_eval(node.test.comparators[0]) for node in body.body]  # type: ignore[attr-defined]
            assert [type(value) for value in values] == [int, str]
            found += [value for value in values if value not in (50, "word")]
    numbers = [value for value in found if isinstance(value, int)]
    assert min(numbers) < 50 < max(numbers)
    assert {len(value) for value in found if isinstance(value, str)} == {4}


def test_other_right_results_than_the_golds_pass_a_check_that_takes_several(grade: Callable[..., dict[str, Any]]):
    check = TOGETHER.replace("is not None", "in (Box, 'a box')")
    of = task({"check": check}, DOUBLE.replace("else x", "else 'a box'"), examples=False)
    assert grade(of, DOUBLE.replace("else x", "else type(x)"))["is_success"]
    assert not grade(of, DOUBLE.replace("else x", "else 'a crate'"))["is_success"]


@pytest.mark.parametrize("odds", [0.25, 0.5, 0.75])
def test_a_coin_never_passes_a_check_in_its_own_process(grade: Callable[..., dict[str, Any]], odds: float):
    coin = f"{EQUAL}import os\ndef double(x):\n    assert os.urandom(1)[0] < {256 * odds}\n    return Equal()\n"
    of = task(KINDS["canaries"], examples=False)
    assert not any(grade(of, coin)["is_success"] for _ in range(25))


KNOWS = (
    EQUAL
    + """
import sys
def double(x):
    frame = sys._getframe()
    while frame.f_code.co_name != "check":
        frame = frame.f_back
    if "_note" in frame.f_code.co_names:
        return {unseen}
    assert all(value in frame.f_code.co_consts for value in (6, "abab", -2))
    return Equal()
"""
)


@pytest.mark.parametrize("unseen", ["0", "x", "Equal()", "next(iter(set(frame.f_code.co_consts) - {x, None}))"])
def test_code_that_knows_which_form_of_a_check_is_true_still_has_to_know_the_results(
    grade: Callable[..., dict[str, Any]], unseen: str
):
    of = task(KINDS["canaries"], examples=False)
    assert not grade(of, KNOWS.replace("{unseen}", unseen))["is_success"]


def test_nothing_of_what_a_check_wants_is_where_it_is_withheld():
    check = TOGETHER.replace("candidate):\n", "candidate):\n    'It is 6, then abab.'\n")
    with open_sandbox() as sandbox:
        gold = Submission(DOUBLE, "double")
        form = withheld(check, gold, lambda request: ask(sandbox, request, SandboxLimits(), fresh=True))
    assert form is not None
    assert [wanted for _, wanted in form.noted] == [6, "abab", -2]
    seen = {node.value for node in ast.walk(ast.parse(form.check)) if isinstance(node, ast.Constant)}
    assert seen == {0, 1, 2, 3, "ab", None}, "numbers of asserts, arguments, and what is no single value"


@pytest.mark.parametrize("how", ["cases", "replay"])
@pytest.mark.parametrize(
    "source",
    [
        "def double(x, calls=[]):\n    calls.append(x)\n    return 2 * x if len(calls) == 1 else x",
        "count = 0\ndef double(x):\n    global count\n    count += 1\n    return 2 * x if count > 1 else None",
    ],
)
def test_a_function_that_carries_something_over_is_wrong(grade: Callable[..., dict[str, Any]], how: str, source: str):
    for examples in (True, False):
        assert not grade(task(KINDS[how], examples=examples), source)["is_success"]


@pytest.mark.parametrize("how", ["cases", "replay"])
def test_a_cache_that_mistakes_one_input_for_another_is_wrong(grade: Callable[..., dict[str, Any]], how: str):
    source = "def double(x, known={}):\n    return known.setdefault(type(x).__name__, 2 * x)"
    assert not grade(task(KINDS[how]), source)["is_success"]


def test_a_function_with_a_true_cache_is_right(grade: Callable[..., dict[str, Any]]):
    source = "def double(x, known={}):\n    return known.setdefault(x, 2 * x)"
    for how in ("cases", "replay"):
        assert grade(task(KINDS[how]), source)["is_success"]


@pytest.mark.parametrize("how", ["cases", "replay"])
def test_truth_values_and_numbers_are_equal_as_in_python(grade: Callable[..., dict[str, Any]], how: str):
    cases = {"cases": [{"args": "(3,)", "expect": "True"}, {"args": "(-2,)", "expect": "False"}]}
    check = {"check": "def check(candidate):\n    assert candidate(3) == True\n    assert candidate(-2) == False\n"}
    of = task(cases if how == "cases" else check, "def positive(x):\n    return int(x > 0)\n", "positive")
    of.data["examples"].append({"args": "(7,)", "expect": "True"})
    assert grade(of, "def positive(x):\n    return 1 if x > 0 else 0\n")["is_success"]
    assert not grade(of, "def positive(x):\n    return 2 if x > 0 else 0\n")["is_success"]


def test_keys_that_are_close_do_not_hide_wrong_values(grade: Callable[..., dict[str, Any]]):
    of = task({"cases": [{"args": "(1.5,)", "expect": "{1.5: 'right'}"}]}, "def f(x):\n    return {x: 'right'}\n", "f")
    assert grade(of, "def f(x):\n    return {x + 1e-13: 'right'}\n")["is_success"]
    assert not grade(of, "def f(x):\n    return {x + 1e-13: 'WRONG'}\n")["is_success"]


def test_the_check_alone_decides_where_there_is_one(grade: Callable[..., dict[str, Any]]):
    of = task({"check": CHECK})
    of.data["examples"].append({"args": "(9,)", "expect": "'the description is wrong here'"})
    info = grade(of, DOUBLE + "# mine")
    assert info["is_success"]
    assert info["rewards"]["visible"] == 0.5


# What progress is.


def test_progress_is_what_no_constant_passes(grade: Callable[..., dict[str, Any]]):
    cases = [{"args": f"({n},)", "expect": repr(n % 3 == 0)} for n in range(9)]
    gold = "def f(x):\n    return x % 3 == 0\n"
    for gold_part in (
        {"cases": cases},
        {"check": "def check(f):\n" + "".join(f"    assert f({n}) == {n % 3 == 0}\n" for n in range(9))},
    ):
        of = task(gold_part, gold, "f")
        for junk in ("0", "None", "x", "True", "False"):
            info = grade(of, f"def f(x):\n    return {junk}\n")
            assert info["rewards"]["progress"] == 0.0, junk
        partly = grade(of, "def f(x):\n    return x % 3 == 0 and x < 6\n")["rewards"]
        assert partly["progress"] == pytest.approx(2 / 3)
        assert partly["hidden"] == pytest.approx(8 / 9)
        assert grade(of, "def f(x):\n    return not x % 3\n")["rewards"]["progress"] == 1.0


def test_answers_that_are_shown_are_no_progress(grade: Callable[..., dict[str, Any]]):
    check = "def check(f):\n    assert f(2) == 4\n    assert f(5) == 10\n    assert f(6) == 12\n"
    table = "def double(x):\n    return {2: 4}.get(x)\n"
    rewards = grade(task({"check": check}), table)["rewards"]
    assert (rewards["visible"], rewards["hidden"], rewards["progress"]) == (1.0, pytest.approx(1 / 3), 0.0)


# Time.


class Watched:
    """Opens sandboxes that note every run in them; the runs are real."""

    def __init__(self) -> None:
        self.runs: list[SandboxLimits] = []

    def open(self) -> Sandbox:
        sandbox = open_sandbox()
        run = sandbox.exec

        def noted(*args: Any, **kwargs: Any) -> Any:
            self.runs.append(kwargs["limits"])
            return run(*args, **kwargs)

        sandbox.exec = noted  # type: ignore[method-assign]
        return sandbox


SLEEPERS = {
    "when it is loaded": "import time\ntime.sleep(1000)\n" + DOUBLE,
    "when it is called": "import time\ndef double(x):\n    time.sleep(1000)\n",
    "and cannot be woken": "import time\ndef double(x):\n    while True:\n        try:\n"
    "            time.sleep(1000)\n        except BaseException:\n            pass\n",
    "and ends its sandbox": "import os, signal, time\ndef double(x):\n    time.sleep(0.4)\n"
    "    os.kill(os.getppid(), signal.SIGKILL)\n    time.sleep(1000)\n",
}


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("when", SLEEPERS)
def test_all_runs_of_a_submission_share_one_deadline(how: str, when: str):
    watched, budget = Watched(), Budget(cpu_s=5.0, wall_s=1.5)
    grader = Grader(watched.open, SandboxLimits(), call_s=4.0, budget=lambda: budget)
    of = task(KINDS[how], examples=False)
    grader.function(of, Submission(DOUBLE, "double"))  # what the gold needs is known from now on
    watched.runs.clear()
    budget.wall_s, budget.cpu_s = 1.5, 5.0
    assert not grader.function(of, Submission(SLEEPERS[when], "double")).solved
    assert budget.is_spent
    # Whatever is slow spends all that is left at once; only ending the sandbox takes several runs.
    assert len(watched.runs) <= (6 if when == "and ends its sandbox" else 2)
    assert sum(limits.wall_s for limits in watched.runs[-1:]) <= 1.5


def test_a_lost_run_is_tried_again_on_the_same_time():
    watched, budget = Watched(), Budget()
    grader = Grader(watched.open, SandboxLimits(), call_s=4.0, budget=lambda: budget)
    killer = "import os, signal\ndef double(x):\n    os.kill(os.getppid(), signal.SIGKILL)\n"
    assert not grader.function(task(CASES, examples=False), Submission(killer, "double")).solved
    offered = [limits.wall_s for limits in watched.runs]
    assert len(offered) > 2
    assert all(later <= 45.0 for later in offered)
    assert budget.wall_s < 45.0


# Submissions that cannot be graded.


def test_what_keeps_an_answer_from_being_graded_is_shown_and_may_be_corrected():
    env = CodeEnv(tasks=TaskList([task(CASES)]))
    for source, told in (
        ("def double(x:", "SyntaxError (line 1)"),
        ("\nimport nothing_like_this", "ModuleNotFoundError (line 2)"),
        ("def other(x):\n    return x", "'double'"),
    ):
        env.reset(seed=0)
        step = env.step(assistant("", [ToolCall("submit", {"answer": source})]))
        assert told in text_of(step.observation[-1])
        assert env.reason is None
        assert step.info["rewards"]["refused"] == 1.0
    assert env.step(assistant("", [ToolCall("submit", {"answer": f"```python\n{DOUBLE}```"})])).info["is_success"]
    env.close()


def test_submissions_that_do_not_load_run_out():
    env = CodeEnv(tasks=TaskList([task(CASES)]))
    for answers in (["x ="] * 3, ["1 / 0", "def other(x): pass", "import nothing_like_this"]):
        env.reset(seed=0)
        steps = [env.step(assistant("", [ToolCall("submit", {"answer": answer})])) for answer in answers]
        assert "2 submissions are left" in text_of(steps[0].observation[-1])
        assert "1 submission is left" in text_of(steps[1].observation[-1])
        assert (env.reason, steps[-1].info["is_success"]) == (Reason.ANSWERED, False)
        assert sum(step.reward for step in steps) <= 0.0
    env.close()
