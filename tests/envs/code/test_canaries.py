"""Checks that share a process with the submitted code: their runs in sandboxes, and the verdict on them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from agentgym.base.errors import TaskError
from agentgym.envs.code.asking import Ask, GraderReply, ask
from agentgym.envs.code.calls import Submission
from agentgym.envs.code.canaries import CHANGED_RUNS, TRUE_RUNS, grade_together, withheld
from agentgym.tools.sandbox import SandboxLimits, open_sandbox
from tests.envs.code.checks import GOLD, check_of, check_task, result

pytestmark = pytest.mark.real

SUBMISSION = Submission(GOLD, "double")
BOXES = check_of(
    "class Box(int): pass",
    "assert candidate(Box(3)) == 6",
    "assert candidate(Box(4)) == 8",
    "assert candidate(Box(-1)) == -2",
)


@pytest.fixture(scope="module")
def run() -> Iterator[Ask]:
    with open_sandbox() as sandbox:
        yield lambda request: ask(sandbox, request, SandboxLimits(), fresh=True)


def recording(run: Ask, requests: list[Mapping[str, Any]]) -> Ask:
    return lambda request: (requests.append(request), run(request))[1]


def test_the_check_runs_unchanged_and_changed_as_often_as_declared(run: Ask):
    requests: list[Mapping[str, Any]] = []
    task = check_task(BOXES, "counted")
    assert grade_together(task, Submission("# again\n" + GOLD, "double"), recording(run, requests), run)
    checks = Counter(request["check"] for request in requests if request["op"] == "together")
    assert checks.pop(ast.unparse(ast.parse(BOXES))) == TRUE_RUNS == 8
    assert sum(checks.values()) == CHANGED_RUNS == 8
    assert len(checks) == 8, "no copy twice while there are others"
    assert [request["op"] for request in requests].count("withheld") == 1


def test_few_copies_are_repeated_and_the_gold_function_runs_once(run: Ask):
    requests: list[Mapping[str, Any]] = []
    of_gold: list[Mapping[str, Any]] = []
    check = check_of("assert candidate([7]) and candidate(None if 0 else 1) == 2", "assert candidate(0) == False")
    task = check_task(check)
    for _ in range(2):
        assert grade_together(task, SUBMISSION, recording(run, requests), recording(run, of_gold))
    first = [request["check"] for request in requests if request["op"] == "together"][: TRUE_RUNS + CHANGED_RUNS]
    copies = Counter(first) - Counter({ast.unparse(ast.parse(check)): TRUE_RUNS})
    assert sum(copies.values()) == CHANGED_RUNS
    assert all(number > 0 for number in copies.values())
    assert len([request for request in of_gold if request["op"] == "withheld"]) == 1


def test_wrong_code_and_loose_checks_do_not_pass(run: Ask):
    for body in ("return x + 3", "return 6", "raise ValueError"):
        wrong = Submission(f"def double(x):\n    {body}", "double")
        assert not grade_together(check_task(BOXES), wrong, run, run), body
    with pytest.raises(TaskError, match="'loose'"):
        grade_together(check_task(check_of("assert candidate(Ellipsis or 3) != 77"), "loose"), SUBMISSION, run, run)


VERDICTS = [
    (["passed"], ["failed"], 0, True),
    (["passed", "passed"], ["failed", "failed"], 0, True),
    (["passed"], ["passed"], 0, False),
    (["failed"], ["failed"], 0, False),
    (["passed"], ["failed", "passed"], 0, False),
    (["passed", "failed"], ["failed"], 0, False),
    (["passed"], [], 0, False),
    ([], ["failed"], 0, False),
    (["passed"], ["failed"], 1, False),
    (["passed"], ["error"], 0, False),
]
"""Verdicts of a process on the true check and on changed ones, its exit code, and whether it counts as passed."""


def test_a_process_that_contradicts_itself_or_breaks_has_no_verdict(run: Ask):
    # Its expected values cannot be withheld, so it has no other forms.
    check = check_of("for x in (1, 2):", "    assert candidate(x) == 2 * x + 0")
    true = ast.unparse(ast.parse(check))

    def replying(
        of_true: list[str], of_changed: list[str], exit_code: int
    ) -> Callable[[Mapping[str, Any]], GraderReply]:
        def reply(request: Mapping[str, Any]) -> GraderReply:
            verdicts = of_true if request["check"] == true else of_changed
            return GraderReply(tuple({"verdict": verdict} for verdict in verdicts), result(exit_code))

        return reply

    task = check_task(check, "scripted")
    failing = [row for row in VERDICTS if grade_together(task, SUBMISSION, replying(*row[:3]), run) is not row[3]]
    assert failing == []


NOTED: list[tuple[list[str], Any]] = [
    (["assert candidate(1) == 2"], ((0, 2),)),
    (["assert candidate('a') == 'aa'", "assert candidate(1) == 2"], ((0, "aa"), (1, 2))),
    (["assert candidate(0) is False or candidate(0) == 0"], ((0, True),)),
    (["assert candidate(1)"], ((0, True),)),
    (["assert not candidate(0)"], ((0, False),)),
    (["assert candidate(1) != 3", "assert candidate(1) == 2"], ((0, 2),)),
    (["assert 1 < candidate(1) < 3", "assert candidate(1) == 2"], ((0, 2),)),
    (["assert not candidate(1) == 3", "assert candidate(2) == 4"], ((0, 4),)),
    (["assert candidate(1) == 1 + 1", "assert candidate(2) == 4"], ((0, 4),)),
    (["for x in (1, 1):", "    assert candidate(x) == 2"], ((0, 2), (0, 2))),
    (["assert candidate(1) == 3"], None),
    (["assert candidate(1) != 3"], None),
    (["raise ValueError"], None),
]


def test_literal_expected_values_are_withheld_from_the_check(run: Ask):
    for lines, noted in NOTED:
        form = withheld(check_of(*lines), SUBMISSION, run)
        assert (form.noted if form else None) == noted, lines
        assert form is None or form.is_met(SUBMISSION, run), lines
    check = "def help():\n    'Only 77.'\n\n" + check_of("'It is 99.'", "assert candidate(26) == 52")
    form = withheld(check, SUBMISSION, run)
    assert form is not None
    assert not [text for text in ("99", "52") if text in form.check]
    assert "Only 77." in form.check, "a function needs a body"
