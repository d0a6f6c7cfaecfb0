"""Checks that share a process with the submitted code: the forms they run in, and what counts as passing them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import pytest

from agentgym.envs.code.asking import Ask, Reply, ask
from agentgym.envs.code.calls import Submission
from agentgym.envs.code.canaries import CHANGED_RUNS, TRUE_RUNS, grade_together, perturbed
from agentgym.envs.code.plain import encode
from agentgym.envs.code.withheld import Withheld, withheld
from agentgym.errors import TaskError
from agentgym.task import Task
from agentgym.tools.sandbox import Ended, Result, SandboxLimits, open_sandbox

DOUBLE = "def double(x):\n    return 2 * x\n"
GOLD = Submission(DOUBLE, "double")


def check_of(*lines: str) -> str:
    return "\n    ".join(["def check(candidate):", *lines]) + "\n"


def task(check: str, name: str = "t", code: str = DOUBLE) -> Task:
    data = {"kind": "function", "entry_point": "double", "prelude": ""}
    return Task(name, "train", "Double it.", data=data, gold={"code": code, "check": check})


@pytest.fixture(scope="module")
def run() -> Iterator[Ask]:
    with open_sandbox() as sandbox:
        yield lambda request: ask(sandbox, request, SandboxLimits(), fresh=True)


# Changed copies.


def forms(check: str, rounds: int = 60) -> set[str]:
    """Return the lines that copies of a check have instead of its own."""
    own = ast.unparse(ast.parse(check)).splitlines()
    found: set[str] = set()
    for seed in range(rounds):
        for copy in perturbed(check, Random(seed)):
            changed = [(a, b) for a, b in zip(own, copy.splitlines(), strict=True) if a != b]
            assert len(changed) == 1, "one expectation is changed, and not to itself"
            found.add(changed[0][1].strip())
    return found


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("assert candidate(9) == 50", {f"assert candidate(9) == {n}" for n in (48, 49, 51, 52)}),
        ("assert candidate(9) == 2", {f"assert candidate(9) == {n}" for n in (0, 1, 3, 4)}),
        ("assert candidate(9) == 1", {f"assert candidate(9) == {n}" for n in (0, 2, 3)}),
        ("assert candidate(9) == 0", {f"assert candidate(9) == {n}" for n in (1, 2)}),
        ("assert candidate(9) == -1", {f"assert candidate(9) == -{n}" for n in (0, 2, 3)}),
        ("assert candidate(9) == 1.5", {f"assert candidate(9) == {n}" for n in (0.5, 2.5, 3.5)}),
        ("assert candidate(9) == True", {"assert candidate(9) == False"}),
        ("assert candidate(9) is False", {"assert candidate(9) is True"}),
        ("assert candidate(9) is None", {"assert candidate(9) is 0"}),
        ("assert candidate(9) == ''", {"assert candidate(9) == 'a'"}),
        ("assert candidate(9) == 'x'", {"assert candidate(9) == 'xx'"}),
        ("assert candidate(9) == 'xx'", {"assert candidate(9) == 'xxx'", "assert candidate(9) == 'x'"}),
        ("assert candidate(9) == 'xy'", {"assert candidate(9) == 'xx'", "assert candidate(9) == 'yy'"}),
        ("assert candidate(9) == b'xy'", {"assert candidate(9) == b'xx'", "assert candidate(9) == b'yy'"}),
        ("assert candidate(9) == float('inf')", {"assert candidate(9) == float('-inf')"}),
        ("assert candidate(9) == [70, 80, 50]", {f"assert candidate(9) == [70, 80, {n}]" for n in (48, 49, 51, 52)}),
        ("assert candidate(9) == (50, ...)", {f"assert candidate(9) == ({n}, ...)" for n in (48, 49, 51, 52)}),
        ("assert 0 < 1 < candidate(9) == 1", {f"assert 0 < 1 < candidate(9) == {n}" for n in (0, 2, 3)}),
        ("assert candidate(9)", {"assert not candidate(9)"}),
        ("assert not candidate(9)", {"assert candidate(9)"}),
        ("assert -candidate(9)", {"assert not -candidate(9)"}),
        ("assert candidate(9) > 1", {f"assert candidate(9) > {n}" for n in (0, 2, 3)}),
        ("expected = kept = 1", {f"expected = kept = {n}" for n in (0, 2, 3)}),
        ("expected = [7, 1]", {f"expected = [7, {n}]" for n in (0, 2, 3)}),
        ("other = 1", set()),
        ("candidate(1)", set()),
    ],
)
def test_an_expectation_is_changed_to_one_close_by_of_its_kind(line: str, changed: set[str]):
    assert forms(check_of("other = 1", line)) == changed


def test_values_that_are_expected_elsewhere_come_up_too_and_not_alone():
    check = check_of("assert candidate(1) == 50", "assert candidate(2) == 90", "assert candidate(3) == 'no'")
    found = forms(check, 200)
    assert {f"assert candidate(1) == {n}" for n in (48, 49, 51, 52, 90)} < found
    assert {f"assert candidate(2) == {n}" for n in (88, 89, 91, 92, 50)} < found
    assert len(found) == 12


def test_where_one_value_fits_somewhere_nothing_else_is_changed():
    check = check_of("assert candidate(1) > 5", "assert candidate(2) == 1", "assert candidate(3) != 3")
    assert forms(check) == {f"assert candidate(2) == {n}" for n in (0, 2, 3)}


def test_neighbours_come_from_places_all_over_the_check():
    lines = [f"assert candidate({number}) == {1000 + 10 * number}" for number in range(36)]
    check = check_of(*lines)
    own = ast.unparse(ast.parse(check)).splitlines()
    places = []
    for copy in perturbed(check, Random(0)):
        places += [i - 1 for i, (a, b) in enumerate(zip(own, copy.splitlines(), strict=True)) if a != b]
    assert sorted(places) == list(range(36))
    assert max(places[:12]) - min(places[:12]) > 30


# Grading.

BOXES = check_of(
    "class Box(int): pass",
    "assert candidate(Box(3)) == 6",
    "assert candidate(Box(4)) == 8",
    "assert candidate(Box(-1)) == -2",
)


def test_the_check_runs_as_it_is_and_changed_as_often_as_is_said(run: Ask):
    asked: list[Mapping[str, Any]] = []

    def listening(request: Mapping[str, Any]) -> Reply:
        asked.append(request)
        return run(request)

    of = task(BOXES, "counted")
    assert grade_together(of, Submission("# again\n" + DOUBLE, "double"), listening, run)
    checks = Counter(request["check"] for request in asked if request["op"] == "together")
    assert checks.pop(ast.unparse(ast.parse(BOXES))) == TRUE_RUNS == 8
    assert sum(checks.values()) == CHANGED_RUNS == 8
    assert len(checks) == 8, "no copy twice while there are others"
    assert [request["op"] for request in asked].count("withheld") == 1


def test_a_check_with_few_copies_meets_each_of_them_and_asks_the_gold_function_once(run: Ask):
    asked, gold = [], []

    def told(to: list[Any]) -> Callable[[Mapping[str, Any]], Reply]:
        return lambda request: (to.append(request), run(request))[1]

    of = task(check_of("assert candidate([7]) and candidate(None if 0 else 1) == 2", "assert candidate(0) == False"))
    for _ in range(2):
        assert grade_together(of, GOLD, told(asked), told(gold))
    first = [request["check"] for request in asked if request["op"] == "together"][: TRUE_RUNS + CHANGED_RUNS]
    copies = Counter(first) - Counter({ast.unparse(ast.parse(of.gold["check"])): TRUE_RUNS})
    assert sum(copies.values()) == CHANGED_RUNS
    assert all(number > 0 for number in copies.values())
    assert len([request for request in gold if request["op"] == "withheld"]) == 1


@pytest.mark.parametrize(
    "code", ["def double(x):\n    return x + 3", "def double(x):\n    return 6", "def double(x):\n    raise ValueError"]
)
def test_wrong_code_does_not_pass(run: Ask, code: str):
    assert not grade_together(task(BOXES), Submission(code, "double"), run, run)


def test_a_check_that_holds_however_it_is_changed_is_the_tasks_mistake(run: Ask):
    with pytest.raises(TaskError, match="'loose' has no assert whose expected value could be changed"):
        grade_together(task(check_of("assert candidate(Ellipsis or 3) != 77"), "loose"), GOLD, run, run)


def result(exit_code: int = 0) -> Result:
    return Result(stdout=b"", stderr=b"", exit_code=exit_code, ended=Ended.EXITED, duration_s=0.0)


@pytest.mark.parametrize(
    ("as_it_is", "changed", "exit_code", "passes"),
    [
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
    ],
)
def test_a_process_that_says_two_things_or_breaks_has_said_nothing(
    run: Ask, as_it_is: list[str], changed: list[str], exit_code: int, passes: bool
):
    # No value of this check can be taken out of it, so that it runs in these forms alone.
    check = check_of("for x in (1, 2):", "    assert candidate(x) == 2 * x + 0")
    true = ast.unparse(ast.parse(check))

    def says(request: Mapping[str, Any]) -> Reply:
        verdicts = as_it_is if request["check"] == true else changed
        return Reply(tuple({"verdict": verdict} for verdict in verdicts), result(exit_code))

    assert grade_together(task(check, "scripted"), GOLD, says, run) is passes


# Without expected values.


@pytest.mark.parametrize(
    ("lines", "noted"),
    [
        (["assert candidate(1) == 2"], ((0, 2),)),
        (["assert 2 == candidate(1)"], ((0, 2),)),
        (["assert candidate('a') == 'aa'", "assert candidate(1) == 2"], ((0, "aa"), (1, 2))),
        (["assert candidate(0) is False or candidate(0) == 0"], ((0, True),)),
        (["assert candidate(1)"], ((0, True),)),
        (["assert not candidate(0)"], ((0, False),)),
        (["assert not not candidate(1)"], ((0, True),)),
        (["assert candidate(1) != 3", "assert candidate(1) == 2"], ((0, 2),)),
        (["assert 1 < candidate(1) < 3", "assert candidate(1) == 2"], ((0, 2),)),
        (["assert 2 == candidate(1) == 2", "assert candidate(2) == 4"], ((0, 4),)),
        (["assert not candidate(1) == 3", "assert candidate(2) == 4"], ((0, 4),)),
        (["assert candidate(1) == 1 + 1", "assert candidate(2) == 4"], ((0, 4),)),
        (["for x in (1, 1):", "    assert candidate(x) == 2"], ((0, 2), (0, 2))),
        (["assert candidate(1) == 3"], None),
        (["assert candidate(1) == 2", "assert candidate(2) == 5"], None),
        (["assert candidate(1) != 3"], None),
        (["raise ValueError"], None),
    ],
)
def test_what_a_check_wants_is_taken_out_where_it_is_known_without_running_it(run: Ask, lines: list[str], noted: Any):
    found = withheld(check_of(*lines), GOLD, run)
    assert (found.noted if found else None) == noted
    assert found is None or found.is_met(GOLD, run)


def test_a_docstring_goes_and_a_body_stays(run: Ask):
    check = "def help():\n    'Only 77.'\n\n" + check_of("'It is 99.'", "assert candidate(1) == 2")
    found = withheld(check, GOLD, run)
    assert found is not None
    assert "99" not in found.check
    assert "Only 77." in found.check, "a function needs a body"


def notes(*pairs: tuple[Any, Any], verdict: str = "passed") -> tuple[dict[str, Any], ...]:
    return (*({"noted": place, "value": encode(value)} for place, value in pairs), {"verdict": verdict})


@pytest.mark.parametrize(
    ("lines", "exit_code", "met"),
    [
        (notes((0, 6), (1, "ab")), 0, True),
        (({"said": "hm"}, *notes((0, 6), (1, "ab"))), 0, True),
        (notes((0, 6), (1, "ab")), 1, False),
        (notes((0, 6), (1, "ab"), verdict="failed"), 0, False),
        (notes((0, 6)), 0, False),
        (notes((0, 6), (1, "ab"), (1, "ab")), 0, False),
        (notes((1, "ab"), (0, 6)), 0, False),
        (notes((0, 6), (0, "ab")), 0, False),
        (notes((0, 6), (1, "ba")), 0, False),
        (notes((0, 7), (1, "ab")), 0, False),
        (notes((False, 6), (True, "ab")), 0, False),
        (notes((0.0, 6), (1.0, "ab")), 0, False),
        (({"noted": 0, "value": "no encoding"}, *notes((1, "ab"))), 0, False),
        (notes(), 0, False),
    ],
)
def test_values_are_compared_out_here_each_where_it_is_wanted(lines: Any, exit_code: int, met: bool):
    form = Withheld("", ((0, 6), (1, "ab")))
    assert form.is_met(GOLD, lambda request: Reply(lines, result(exit_code))) is met
