"""Draws for many tests: most processes run a few tests, one runs all, and each test runs in both forms."""

from __future__ import annotations

import random

from agentgym.envs.swe.calibration import Calibration
from agentgym.envs.swe.draws import APART, BESIDE, PROCESSES, DrawnProcess, draw
from agentgym.envs.swe.forms import ChangedForm
from agentgym.envs.swe.ids import NodeId, Place
from agentgym.envs.swe.judge import HiddenTests, Manner
from agentgym.envs.swe.perturb import FunctionChange, NodeEdit
from tests.rows import each_row

DECISIVE = ("near.py::test_one", "near.py::test_two")
NEAR = tuple(f"near.py::test_near{number}" for number in range(30))
APART_TESTS = tuple(f"apart.py::test_apart{number}" for number in range(30))
CUT = ("near.py::test_cut[a",)
TESTS = (*DECISIVE, *NEAR, *APART_TESTS)


def form(test: str, number: int = 4, kind: str = "constant") -> ChangedForm:
    path, scope, name = NodeId.of(test).place
    return ChangedForm(
        FunctionChange(path, scope, name, (NodeEdit(number, kind, "1"),)), {} if kind == "value" else {"": "3"}
    )


FORMS = tuple(form(test, number) for test in TESTS for number in range(5 if test in DECISIVE else 1))
WITHHELD = tuple(form(test, kind="value") for test in DECISIVE)


def draw_processes(seed: int, tests: tuple[str, ...] = TESTS) -> list[DrawnProcess]:
    hidden = HiddenTests(modules={}, tests=tests, prefixes=CUT)
    blind, others = draw(hidden, DECISIVE, Calibration(Manner.RENAMED, FORMS, withheld=WITHHELD), random.Random(seed))
    assert blind is not None
    return [blind, *others]


def changed(process: DrawnProcess) -> set[Place]:
    return {form.change.place for form in process.forms}


SEEDS = each_row("seed", range(12))


@SEEDS
def test_exactly_one_process_runs_all_tests(seed: int):
    processes = draw_processes(seed)
    assert len(processes) == PROCESSES
    (whole,) = [process for process in processes if set(process.hidden.tests) == set(TESTS)]
    assert set(whole.hidden.prefixes) == set(CUT)


@SEEDS
def test_most_processes_run_a_few_other_tests_of_the_deciding_files(seed: int):
    others = [
        [test for test in (*process.hidden.tests, *process.hidden.prefixes) if test not in DECISIVE]
        for process in draw_processes(seed)
    ]
    small = [own for own in others if not any(test in own for test in APART_TESTS)]
    assert len(small) == PROCESSES - 2
    assert {len(own) for own in small} == {BESIDE}
    assert len(set(map(tuple, small))) == len(small)


@SEEDS
def test_functions_with_too_many_cases_run_with_all_of_them(seed: int):
    many = tuple(f"near.py::test_many[{number}]" for number in range(BESIDE + 5))
    for process in draw_processes(seed, (*DECISIVE, *many)):
        others = set(process.hidden.tests) - set(DECISIVE)
        assert others == set(many) or (not others and process.hidden.prefixes == CUT)


@SEEDS
def test_few_functions_are_changed_in_files_without_deciding_tests(seed: int):
    varied = {place for process in draw_processes(seed) for place in changed(process) if place[0] == "apart.py"}
    assert 0 < len(varied) <= 2 * APART


def test_other_tests_are_changed_about_half_of_the_time():
    changes = [
        NodeId.of(test).place in changed(process)
        for seed in range(12)
        for process in draw_processes(seed)
        for test in process.hidden.tests
        if test in NEAR
    ]
    assert 0.3 < sum(changes) / len(changes) < 0.7


def test_functions_changed_in_the_whole_process_run_true_among_changed_ones():
    changes: list[bool] = []
    for seed in range(40):
        processes = draw_processes(seed)
        whole = next(process for process in processes if set(process.hidden.tests) == set(TESTS))
        again = next(
            process for process in processes if process is not whole and set(process.hidden.tests) & set(APART_TESTS)
        )
        changed_before = changed(whole) - {NodeId.of(test).place for test in DECISIVE}
        assert not changed_before & changed(again)
        others = {NodeId.of(test).place for test in again.hidden.tests if test not in DECISIVE} - changed_before
        changes += [place in changed(again) for place in others]
    assert 0.4 < sum(changes) / len(changes) < 0.6


@SEEDS
def test_one_process_withholds_the_values_of_all_deciding_tests(seed: int):
    processes = draw_processes(seed)
    blind = [{form.change.place for form in process.forms if form.withholds} for process in processes]
    assert [own for own in blind if own] == [{NodeId.of(test).place for test in DECISIVE}]
    assert blind[0], "it comes first"


def test_the_order_of_all_processes_but_the_blind_one_is_random():
    whole, true = set[int](), set[int]()
    for seed in range(60):
        for position, process in enumerate(draw_processes(seed)):
            whole |= {position} if set(process.hidden.tests) == set(TESTS) else set()
            true |= set() if changed(process) & {NodeId.of(test).place for test in DECISIVE} else {position}
    assert whole == true == set(range(1, PROCESSES))


@SEEDS
def test_forms_of_a_deciding_function_are_not_repeated(seed: int):
    for test in DECISIVE:
        forms = [form for process in draw_processes(seed) for form in process.forms if not form.withholds]
        own = [form for form in forms if form.change.place == NodeId.of(test).place]
        assert len(set(own)) == len(own)
