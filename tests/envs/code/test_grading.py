"""Grading of code: right and wrong submissions, cheats, and the time that all runs of a submission share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agentgym.base.errors import TaskError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.task import Task, TaskList
from agentgym.envs.code import CodeEnv
from agentgym.envs.code.asking import CPU_S, Budget
from agentgym.envs.code.calls import Submission
from agentgym.envs.code.grading import CodeGrader
from agentgym.tools.sandbox import Sandbox, SandboxLimits, open_sandbox
from tests.envs.code.checks import cases_of, function_task
from tests.played import call, said
from tests.rows import each_row

pytestmark = pytest.mark.real

Grade = Callable[..., dict[str, Any]]
NIGHTLY = pytest.mark.nightly
CASES = {"cases": cases_of(("(3,)", "6"), ("('ab',)", "'abab'"), ("(-1,)", "-2"))}
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
    visible = cases_of(("(2,)", "4")) if examples and name == "double" else []
    return function_task({"code": code, **gold}, name, prelude=prelude, examples=visible)


@pytest.fixture(scope="module")
def grade() -> Iterator[Grade]:
    """Submit a source for a task; returns the info of the last step."""
    env = CodeEnv(tasks=TaskList([task(CASES)]), call_s=0.3)

    def submit(of: Task, source: str) -> dict[str, Any]:
        env.reset(options={"task": of})
        return call(env, "submit", answer=source).info

    yield submit
    env.close()


KINDS = {"cases": CASES, "replay": {"check": CHECK}, "canaries": {"check": TOGETHER}}


WRONG = ("return x + 2", "return None", "return 4", "return 2 * x if x != -1 else 2", "raise ValueError(x)")


@pytest.mark.parametrize("how", KINDS)
def test_right_functions_earn_everything_and_wrong_ones_do_not_pass(grade: Grade, how: str):
    info = grade(task(KINDS[how]), "# again\n" + DOUBLE)
    assert (info["is_success"], info["grading"]) == (True, how)
    assert info["rewards"]["visible"] == info["rewards"]["hidden"] == 1.0
    for body in WRONG:
        info = grade(task(KINDS[how]), f"def double(x):\n    {body}")
        assert not info["is_success"], body
        assert info["rewards"]["hidden"] < 1.0, body


def test_the_time_limit_of_a_call_is_positive_and_at_most_that_of_a_submission():
    CodeGrader(open_sandbox, SandboxLimits(), CPU_S)
    for call_s in (0.0, CPU_S + 0.1):
        with pytest.raises(UsageError, match="call_s"):
            CodeGrader(open_sandbox, SandboxLimits(), call_s)


@each_row(
    "body, starts",
    [
        ("return 6", ["1 of 2 examples pass.", "double(2) returned 6; expected 4"]),
        ("raise ValueError", ["0 of 2 examples pass.", "double(2) raised ValueError", "double(3) raised ValueError"]),
    ],
)
def test_examples_are_counted_and_failing_ones_shown(body: str, starts: list[str]):
    example = task(CASES)
    example.data["examples"].append({"args": "(3,)", "expect": "6"})
    with open_sandbox() as sandbox:
        grader = CodeGrader(open_sandbox, SandboxLimits(), 0.3)
        count, report = grader.examples(example, Submission(f"def double(x):\n    {body}", "double"), sandbox)
    assert count == int(starts[0][0])
    assert [line[: len(start)] for line, start in zip(report.splitlines(), starts, strict=True)] == starts


def test_a_failed_check_leaves_the_share_of_hidden_tests_below_one(grade: Grade):
    for calls, hidden in ((1, 0.0), (2, 0.5), (4, 0.75)):
        asserts = "\n".join(f"    assert candidate({n}) == 0.1 * {n} + 0.2" for n in range(1, calls + 1))
        check, gold = f"def check(candidate):\n{asserts}\n", "def double(x):\n    return 0.1 * x + 0.2\n"
        rewards = grade(task({"check": check}, gold, examples=False), gold.replace("0.2", "0.2 + 1e-12"))["rewards"]
        assert (rewards["outcome"], rewards["hidden"]) == (0.0, pytest.approx(hidden))


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
def test_cheats_earn_nothing(grade: Grade, how: str):
    # Without examples, because most cheats fail these before any hidden test.
    infos = {name: grade(task(KINDS[how], examples=False), source) for name, source in CHEATS.items()}
    paid = {name for name, info in infos.items() if info["rewards"]["outcome"] or info["rewards"]["hidden"]}
    assert paid | {name for name, info in infos.items() if info.get("is_success")} == set()


ENDLESS = (
    "def double(x):\n    while True:\n        pass",
    "def double(x):\n    while True:\n        try:\n            while True:\n                pass\n"
    "        except BaseException:\n            pass",
    "def double(x):\n    return bytearray(10**12)",
    "def double(x):\n    return [0] * (10**7) + list(range(10**9))",
    "def double(x):\n    return double(x)",
    "x = 9 ** 9 ** 9\ndef double(x):\n    return x",
)


def test_endless_and_greedy_code_earns_nothing(grade: Grade):
    assert [source for source in ENDLESS if grade(task(CASES), source)["is_success"]] == []


WALK = """
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
WALKER = "def walk(x):\n    if x is None:\n        raise TypeError('no')\n    x.sort()\n    return (i for i in x)\n"
GROW = "def check(candidate):\n    x = 1\n    for _ in range(3):\n        x = candidate(x)\n    assert x in (8, 27)\n"
GROWN = "def grow(x):\n    return {} * x\n"
TRIPLE = "import random\ndef check(candidate):\n    x = random.random()\n    assert candidate(x) == x * 3\n"
TRIPLED = "def triple(x):\n    return x * 3\n"
HELPED = "def later(x):\n    return helper(x + 1)\n"
LATER = "def check(candidate):\n    assert candidate(2) == helper(3) == later(2)\n"
BOXED = DOUBLE.replace("else x", "else 'a box'")
SEVERAL = TOGETHER.replace("is not None", "in (Box, 'a box')")
SIGN = "def positive(x):\n    return int(x > 0)\n"
POSITIVE = {
    "cases": cases_of(("(3,)", "True"), ("(-2,)", "False")),
    "check": "def check(candidate):\n    assert candidate(3) == True\n    assert candidate(-2) == False\n",
}
STATEFUL = (
    "def double(x, calls=[]):\n    calls.append(x)\n    return 2 * x if len(calls) == 1 else x",
    "count = 0\ndef double(x):\n    global count\n    count += 1\n    return 2 * x if count > 1 else None",
)
WRONG_CACHE = "def double(x, known={}):\n    return known.setdefault(type(x).__name__, 2 * x)"
CACHE = "def double(x, known={}):\n    return known.setdefault(x, 2 * x)"
HELPER = "def helper(x):\n    return -x\n"
BEHAVIOURS: dict[str, tuple[Task, Sequence[str], Sequence[str]]] = {
    "exceptions, changed arguments and iterators": (
        task({"check": WALK}, WALKER, "walk"),
        [f"# mine\n{WALKER}"],
        [WALKER.replace("x.sort()", "x = sorted(x)"), WALKER.replace("TypeError", "ValueError")],
    ),
    "calls with earlier results": (
        task({"check": GROW}, GROWN.format(2), "grow"),
        [GROWN.format(3)],
        [GROWN.format(4)],
    ),
    "drawn arguments": (task({"check": TRIPLE}, TRIPLED, "triple"), [TRIPLED.replace("x * 3", "3 * x")], []),
    "the source of the task": (task({"check": LATER}, HELPED, "later", prelude=HELPER), [HELPED], []),
    "one of several right results": (
        task({"check": SEVERAL}, BOXED, examples=False),
        [BOXED.replace("'a box'", "type(x)")],
        [BOXED.replace("a box", "a crate")],
    ),
    **{
        f"truth values as numbers, by {part}": (
            task({part: gold}, SIGN, "positive"),
            [SIGN.replace("int(x > 0)", "1 if x > 0 else 0")],
            [SIGN.replace("int(x > 0)", "2 if x > 0 else 0")],
        )
        for part, gold in POSITIVE.items()
    },
    **{
        f"calls without memory, by {how}, {'with' if examples else 'without'} examples": (
            task(KINDS[how], examples=examples),
            [CACHE],
            [*STATEFUL, *([WRONG_CACHE] if examples else [])],
        )
        for how in ("cases", "replay")
        for examples in (True, False)
    },
}


def test_the_verdict_covers_all_behaviour_of_a_function(grade: Grade):
    failing = [
        (name, source)
        for name, (example, right, wrong) in BEHAVIOURS.items()
        for source in (*right, *wrong)
        if grade(example, source)["is_success"] is (source in wrong)
    ]
    assert failing == []


def test_a_broken_gold_is_reported_and_the_check_decides_over_examples(grade: Grade):
    with pytest.raises(TaskError, match="own check"):
        grade(task({"check": CHECK}, "def double(x):\n    return x\n"), DOUBLE)
    with pytest.raises(TaskError, match="case 1"):
        grade(task({"cases": [{"args": "(x,)", "expect": "1"}]}), DOUBLE)
    example = task({"check": CHECK})
    example.data["examples"].append({"args": "(9,)", "expect": "'the description is wrong here'"})
    info = grade(example, DOUBLE + "# mine")
    assert (info["is_success"], info["rewards"]["visible"]) == (True, 0.5)


def test_a_coin_never_passes_a_check_in_its_own_process(grade: Grade):
    example = task(KINDS["canaries"], examples=False)
    for odds in (0.25, 0.5, 0.75):
        toss = f"import os\ndef double(x):\n    assert os.urandom(1)[0] < {256 * odds}\n    return Equal()\n"
        assert not any(grade(example, EQUAL + toss)["is_success"] for _ in range(8)), odds


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


def test_code_that_recognises_the_true_check_still_needs_the_results(grade: Grade):
    example = task(KINDS["canaries"], examples=False)
    for unseen in ("0", "x", "Equal()", "next(iter(set(frame.f_code.co_consts) - {x, None}))"):
        assert not grade(example, KNOWS.replace("{unseen}", unseen))["is_success"], unseen


def test_progress_ignores_tests_that_constants_or_known_answers_pass(grade: Grade):
    for how in ("cases", "replay"):
        rewards = grade(task(KINDS[how]), "def double(x):\n    return 2 * x if x != -1 else 2")["rewards"]
        assert (rewards["visible"], rewards["hidden"]) == (1.0, pytest.approx(2 / 3))
    check = "def check(f):\n    assert f(2) == 4\n    assert f(5) == 10\n    assert f(6) == 12\n"
    rewards = grade(task({"check": check}), "def double(x):\n    return {2: 4}.get(x)\n")["rewards"]
    assert (rewards["visible"], rewards["hidden"], rewards["progress"]) == (1.0, pytest.approx(1 / 3), 0.0)
    cases = cases_of(*((f"({n},)", repr(n % 3 == 0)) for n in range(9)))
    check = "def check(f):\n" + "".join(f"    assert f({n}) == {n % 3 == 0}\n" for n in range(9))
    for gold in ({"cases": cases}, {"check": check}):
        of = task(gold, "def f(x):\n    return x % 3 == 0\n", "f")
        for junk in ("0", "None", "x", "True", "False"):
            assert grade(of, f"def f(x):\n    return {junk}\n")["rewards"]["progress"] == 0.0, junk
        partly = grade(of, "def f(x):\n    return x % 3 == 0 and x < 6\n")["rewards"]
        assert partly["progress"] == pytest.approx(2 / 3)
        assert partly["hidden"] == pytest.approx(8 / 9)
        assert grade(of, "def f(x):\n    return not x % 3\n")["rewards"]["progress"] == 1.0
    buggy = "def f(x):\n    return x % 3 == 0 and x < 6\n"
    repair = task({"cases": cases}, "def f(x):\n    return x % 3 == 0\n", "f")
    repair = replace(repair, data={**repair.data, "code": buggy})
    assert grade(repair, buggy)["rewards"]["progress"] == 0.0
    assert grade(repair, "def f(x):\n    return x % 3 == 0 and x < 8\n")["rewards"]["progress"] == 1.0


SLEEPERS = {
    "when it is loaded": "import time\ntime.sleep(1000)\n" + DOUBLE,
    "when it is called": "import time\ndef double(x):\n    time.sleep(1000)\n",
    "and cannot be woken": "import time\ndef double(x):\n    while True:\n        try:\n"
    "            time.sleep(1000)\n        except BaseException:\n            pass\n",
    "and ends its sandbox": "import os, signal, time\ndef double(x):\n    time.sleep(0.4)\n"
    "    os.kill(os.getppid(), signal.SIGKILL)\n    time.sleep(1000)\n",
}


@pytest.mark.parametrize("how", ["cases", *(pytest.param(how, marks=NIGHTLY) for how in ("replay", "canaries"))])
def test_all_runs_of_a_submission_share_one_deadline(how: str):
    runs: list[SandboxLimits] = []
    budget = Budget()

    def open_recorded() -> Sandbox:
        sandbox = open_sandbox()
        run = sandbox.exec
        sandbox.exec = lambda *args, **kwargs: (runs.append(kwargs["limits"]), run(*args, **kwargs))[1]  # type: ignore
        return sandbox

    grader = CodeGrader(open_recorded, SandboxLimits(), call_s=4.0, budget=lambda: budget)
    example = task(KINDS[how], examples=False)
    grader.function(example, Submission(DOUBLE, "double"))  # caches the results of the gold
    for when, source in SLEEPERS.items():
        runs.clear()
        budget.wall_s, budget.cpu_s = 1.5, 5.0
        assert not grader.function(example, Submission(source, "double")).solved, when
        assert budget.is_spent, when
        # Slow code spends all remaining time at once; only ending the sandbox takes several runs.
        assert len(runs) <= (6 if when == "and ends its sandbox" else 2), when
        assert runs[-1].wall_s <= 1.5, when


def test_code_that_does_not_load_may_be_corrected_until_submissions_run_out():
    env = CodeEnv(tasks=TaskList([task(CASES)]))
    for last, reason in ((f"```python\n{DOUBLE}```", Reason.SOLVED), ("1 / 0", Reason.ANSWERED)):
        env.reset(seed=0)
        for source, fault, remaining in (
            ("def double(x:", "SyntaxError (line 1)", "2 submissions are left"),
            ("\nimport nothing_like_this", "ModuleNotFoundError (line 2)", "1 submission is left"),
        ):
            step = call(env, "submit", answer=source)
            assert [words for words in (fault, remaining) if words not in said(step)] == []
            assert (step.terminated, step.info["rewards"]["refused"]) == (False, 1.0)
        assert call(env, "submit", answer=last).info["is_success"] is (reason is Reason.SOLVED)
        assert env.reason is reason
    env.reset(seed=0)
    assert "'double'" in said(call(env, "submit", answer="def other(x):\n    return x"))
    env.close()
