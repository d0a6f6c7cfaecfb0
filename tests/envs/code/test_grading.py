"""Grading of code: the pay of a submission, cheats that earn nothing, and time that all its runs share."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from agentgym.endings import Reason
from agentgym.envs.code import CodeEnv
from agentgym.envs.code.asking import ask
from agentgym.envs.code.budget import CPU_S, Budget
from agentgym.envs.code.calls import Submission
from agentgym.envs.code.grading import Grader
from agentgym.envs.code.withheld import withheld
from agentgym.errors import TaskError, UsageError
from agentgym.messages import ToolCall, assistant, text_of
from agentgym.task import Task, TaskList
from agentgym.tools.sandbox import Sandbox, SandboxLimits, open_sandbox

pytestmark = pytest.mark.real

Grade = Callable[..., dict[str, Any]]
NIGHTLY = pytest.mark.nightly
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
def grade() -> Iterator[Grade]:
    """Submit a source for a task; returns the info of the last step."""
    env = CodeEnv(tasks=TaskList([task(CASES)]), call_s=0.3)

    def submit(of: Task, source: str) -> dict[str, Any]:
        env.reset(options={"task": of})
        return env.step(assistant("", [ToolCall("submit", {"answer": source})])).info

    yield submit
    env.close()


# The pay of a submission.

KINDS = {"cases": CASES, "replay": {"check": CHECK}, "canaries": {"check": TOGETHER}}


WRONG = (
    "return x + 2",
    "return None",
    "return 4",
    "return 2 * x if x != -1 else 2",
    "raise ValueError(x)",
)


@pytest.mark.parametrize("how", KINDS)
def test_right_functions_earn_everything_and_wrong_ones_do_not_pass(grade: Grade, how: str):
    info = grade(task(KINDS[how]), "# again\n" + DOUBLE)
    assert (info["is_success"], info["grading"]) == (True, how)
    assert info["rewards"]["visible"] == info["rewards"]["hidden"] == 1.0
    for body in WRONG:
        info = grade(task(KINDS[how]), f"def double(x):\n    {body}")
        assert not info["is_success"], body
        assert info["rewards"]["hidden"] < 1.0, body


def test_a_call_has_more_than_no_time_and_no_more_than_a_submission():
    for call_s, is_valid in ((0.0, False), (-1.0, False), (CPU_S, True), (CPU_S + 0.1, False)):
        with nullcontext() if is_valid else pytest.raises(UsageError, match="call_s"):
            Grader(open_sandbox, SandboxLimits(), call_s)


EXAMPLES = {
    DOUBLE: ["2 of 2 examples pass."],
    "def double(x):\n    return 6": ["1 of 2 examples pass.", "double(2) returned 6; expected 4"],
    "def double(x):\n    raise ValueError('no')": [
        "0 of 2 examples pass.",
        "double(2) raised ValueError",
        "double(3) raised ValueError",
    ],
}


def test_examples_are_counted_and_those_that_fail_are_shown():
    example = task(CASES)
    example.data["examples"].append({"args": "(3,)", "expect": "6"})
    for source, starts in EXAMPLES.items():
        with open_sandbox() as sandbox:
            grader = Grader(open_sandbox, SandboxLimits(), 0.3)
            count, report = grader.examples(example, Submission(source, "double"), sandbox)
        assert count == int(starts[0][0])
        assert [line[: len(start)] for line, start in zip(report.splitlines(), starts, strict=True)] == starts


def test_a_check_that_fails_on_results_that_are_all_alike_does_not_pass_in_full(grade: Grade):
    for calls, hidden in ((1, 0.0), (2, 0.5), (4, 0.75)):
        asserts = "\n".join(f"    assert candidate({n}) == 0.1 * {n} + 0.2" for n in range(1, calls + 1))
        check, gold = f"def check(candidate):\n{asserts}\n", "def double(x):\n    return 0.1 * x + 0.2\n"
        rewards = grade(task({"check": check}, gold, examples=False), gold.replace("0.2", "0.2 + 1e-12"))["rewards"]
        assert (rewards["outcome"], rewards["hidden"]) == (0.0, pytest.approx(hidden))


def test_hidden_is_the_share_of_tests_that_pass(grade: Grade):
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
def test_cheats_earn_nothing(grade: Grade, how: str):
    # Without examples, which most of these would fail before the hidden tests are looked at.
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


def test_code_that_takes_forever_or_too_much_ends_and_earns_nothing(grade: Grade):
    assert [source for source in ENDLESS if grade(task(CASES), source)["is_success"]] == []


def test_files_of_earlier_episodes_are_not_there(grade: Grade):
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


def test_a_check_sees_exceptions_changed_arguments_and_iterators(grade: Grade):
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


def test_a_check_may_go_on_from_what_the_function_gave(grade: Grade):
    check = (
        "def check(candidate):\n    x = 1\n    for _ in range(3):\n        x = candidate(x)\n    assert x in (8, 27)\n"
    )
    of = task({"check": check}, "def grow(x):\n    return 2 * x\n", "grow")
    assert grade(of, "def grow(x):\n    return 3 * x\n")["is_success"]
    assert not grade(of, "def grow(x):\n    return 4 * x\n")["is_success"]


def test_a_check_that_draws_its_arguments_draws_the_same_again(grade: Grade):
    check = "import random\ndef check(candidate):\n    x = random.random()\n    assert candidate(x) == x * 3\n"
    of = task({"check": check}, "def triple(x):\n    return x * 3\n", "triple")
    assert grade(of, "def triple(x):\n    return 3 * x\n")["is_success"]


def test_the_source_of_the_task_is_there_for_the_function_and_the_check(grade: Grade):
    check = "def check(candidate):\n    assert candidate(2) == helper(3) == later(2)\n"
    of = task(
        {"check": check},
        "def later(x):\n    return helper(x + 1)\n",
        "later",
        prelude="def helper(x):\n    return -x\n",
    )
    assert grade(of, "def later(x):\n    return helper(x + 1)\n")["is_success"]


def test_a_gold_that_fails_its_own_check_is_reported(grade: Grade):
    with pytest.raises(TaskError, match="own check"):
        grade(task({"check": CHECK}, "def double(x):\n    return x\n"), DOUBLE)


def test_gold_that_is_no_literal_is_reported(grade: Grade):
    with pytest.raises(TaskError, match="case 1"):
        grade(task({"cases": [{"args": "(x,)", "expect": "1"}]}), DOUBLE)


def test_other_right_results_than_the_golds_pass_a_check_that_takes_several(grade: Grade):
    check = TOGETHER.replace("is not None", "in (Box, 'a box')")
    of = task({"check": check}, DOUBLE.replace("else x", "else 'a box'"), examples=False)
    assert grade(of, DOUBLE.replace("else x", "else type(x)"))["is_success"]
    assert not grade(of, DOUBLE.replace("else x", "else 'a crate'"))["is_success"]


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


def test_code_that_knows_the_true_form_of_a_check_still_has_to_know_the_results(grade: Grade):
    example = task(KINDS["canaries"], examples=False)
    for unseen in ("0", "x", "Equal()", "next(iter(set(frame.f_code.co_consts) - {x, None}))"):
        assert not grade(example, KNOWS.replace("{unseen}", unseen))["is_success"], unseen


def test_a_withheld_form_holds_no_expected_value():
    check = TOGETHER.replace("candidate):\n", "candidate):\n    'It is 6, then abab.'\n")
    with open_sandbox() as sandbox:
        gold = Submission(DOUBLE, "double")
        form = withheld(check, gold, lambda request: ask(sandbox, request, SandboxLimits(), fresh=True))
    assert form is not None
    assert [value for _, value in form.noted] == [6, "abab", -2]
    seen = {node.value for node in ast.walk(ast.parse(form.check)) if isinstance(node, ast.Constant)}
    assert seen == {0, 1, 2, 3, "ab", None}, "numbers of asserts, arguments, and what is no single value"


CARRYING_OVER = (
    "def double(x, calls=[]):\n    calls.append(x)\n    return 2 * x if len(calls) == 1 else x",
    "count = 0\ndef double(x):\n    global count\n    count += 1\n    return 2 * x if count > 1 else None",
    "def double(x, known={}):\n    return known.setdefault(type(x).__name__, 2 * x)",
)


def test_a_function_that_carries_something_over_is_wrong_but_a_true_cache_is_right(grade: Grade):
    for how in ("cases", "replay"):
        for source in CARRYING_OVER:
            assert not grade(task(KINDS[how]), source)["is_success"], (how, source)
        for source in CARRYING_OVER[:2]:
            assert not grade(task(KINDS[how], examples=False), source)["is_success"], (how, source)
        cache = "def double(x, known={}):\n    return known.setdefault(x, 2 * x)"
        assert grade(task(KINDS[how]), cache)["is_success"], how


def test_truth_values_and_numbers_are_equal_as_in_python(grade: Grade):
    cases = {"cases": [{"args": "(3,)", "expect": "True"}, {"args": "(-2,)", "expect": "False"}]}
    check = {"check": "def check(candidate):\n    assert candidate(3) == True\n    assert candidate(-2) == False\n"}
    for gold in (cases, check):
        example = task(gold, "def positive(x):\n    return int(x > 0)\n", "positive")
        example.data["examples"].append({"args": "(7,)", "expect": "True"})
        assert grade(example, "def positive(x):\n    return 1 if x > 0 else 0\n")["is_success"]
        assert not grade(example, "def positive(x):\n    return 2 if x > 0 else 0\n")["is_success"]


def test_keys_that_are_close_do_not_hide_wrong_values(grade: Grade):
    of = task({"cases": [{"args": "(1.5,)", "expect": "{1.5: 'right'}"}]}, "def f(x):\n    return {x: 'right'}\n", "f")
    assert grade(of, "def f(x):\n    return {x + 1e-13: 'right'}\n")["is_success"]
    assert not grade(of, "def f(x):\n    return {x + 1e-13: 'WRONG'}\n")["is_success"]


def test_the_check_alone_decides_where_there_is_one(grade: Grade):
    of = task({"check": CHECK})
    of.data["examples"].append({"args": "(9,)", "expect": "'the description is wrong here'"})
    info = grade(of, DOUBLE + "# mine")
    assert info["is_success"]
    assert info["rewards"]["visible"] == 0.5


# Progress.


def test_progress_is_what_no_constant_passes(grade: Grade):
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


def test_answers_that_are_shown_are_no_progress(grade: Grade):
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


@pytest.mark.parametrize("how", ["cases", *(pytest.param(how, marks=NIGHTLY) for how in ("replay", "canaries"))])
def test_all_runs_of_a_submission_share_one_deadline(how: str):
    watched, budget = Watched(), Budget()
    grader = Grader(watched.open, SandboxLimits(), call_s=4.0, budget=lambda: budget)
    example = task(KINDS[how], examples=False)
    grader.function(example, Submission(DOUBLE, "double"))  # from now on, the needs of the gold are cached
    for when, source in SLEEPERS.items():
        watched.runs.clear()
        budget.wall_s, budget.cpu_s = 1.5, 5.0
        assert not grader.function(example, Submission(source, "double")).solved, when
        assert budget.is_spent, when
        # Slow code spends all remaining time at once; only ending the sandbox takes several runs.
        assert len(watched.runs) <= (6 if when == "and ends its sandbox" else 2), when
        assert watched.runs[-1].wall_s <= 1.5, when


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


def test_the_fault_that_prevents_grading_is_shown_and_may_be_corrected():
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
