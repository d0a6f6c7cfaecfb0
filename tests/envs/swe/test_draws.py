"""What the processes of a grading run where there are many tests: few in most, all in one, and in both forms."""

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


def drawn(seed: int, tests: tuple[str, ...] = TESTS) -> list[DrawnProcess]:
    hidden = HiddenTests(modules={}, tests=tests, prefixes=CUT)
    first, others = draw(hidden, DECISIVE, Calibration(Manner.RENAMED, FORMS, withheld=WITHHELD), random.Random(seed))
    return [first, *others]


def changed(process: DrawnProcess) -> set[Place]:
    return {form.change.place for form in process.forms}


SEEDS = each_row("seed", range(12))


@SEEDS
def test_there_are_as_many_processes_as_it_says_and_just_one_runs_all_tests(seed: int):
    processes = drawn(seed)
    assert len(processes) == PROCESSES
    whole = [one for one in processes if set(one.hidden.tests) == set(TESTS)]
    assert len(whole) == 1
    assert set(whole[0].hidden.prefixes) == set(CUT)


@SEEDS
def test_most_processes_run_a_few_other_tests_of_the_deciding_files(seed: int):
    beside = [
        [test for test in (*one.hidden.tests, *one.hidden.prefixes) if test not in DECISIVE] for one in drawn(seed)
    ]
    small = [own for own in beside if not any(test in own for test in APART_TESTS)]
    assert len(small) == PROCESSES - 2
    assert {len(own) for own in small} == {BESIDE}
    assert len(set(map(tuple, small))) == len(small)


@SEEDS
def test_tests_stand_beside_even_where_there_are_more_cases_than_there_is_room_for(seed: int):
    many = tuple(f"near.py::test_many[{number}]" for number in range(BESIDE + 5))
    for one in drawn(seed, (*DECISIVE, *many)):
        others = set(one.hidden.tests) - set(DECISIVE)
        assert others == set(many) or (not others and one.hidden.prefixes == CUT)


@SEEDS
def test_few_functions_are_changed_in_files_without_deciding_tests(seed: int):
    varied = {place for one in drawn(seed) for place in changed(one) if place[0] == "apart.py"}
    assert 0 < len(varied) <= 2 * APART


@SEEDS
def test_functions_changed_in_the_whole_process_are_true_in_another(seed: int):
    processes = drawn(seed)
    whole = next(one for one in processes if set(one.hidden.tests) == set(TESTS))
    for place in changed(whole):
        asked = [one for one in processes if any(NodeId.of(test).place == place for test in one.hidden.tests)]
        assert any(place not in changed(one) for one in asked)


def test_tests_that_do_not_decide_are_changed_about_as_often_as_not():
    changes = [
        NodeId.of(test).place in changed(one)
        for seed in range(12)
        for one in drawn(seed)
        for test in one.hidden.tests
        if test in NEAR
    ]
    assert 0.3 < sum(changes) / len(changes) < 0.7


def test_functions_changed_in_the_whole_process_are_true_beside_changed_ones():
    changes: list[bool] = []
    for seed in range(40):
        processes = drawn(seed)
        whole = next(one for one in processes if set(one.hidden.tests) == set(TESTS))
        again = next(one for one in processes if one is not whole and set(one.hidden.tests) & set(APART_TESTS))
        was = changed(whole) - {NodeId.of(test).place for test in DECISIVE}
        assert not was & changed(again)
        others = {NodeId.of(test).place for test in again.hidden.tests if test not in DECISIVE} - was
        changes += [place in changed(again) for place in others]
    assert 0.4 < sum(changes) / len(changes) < 0.6


@SEEDS
def test_all_tests_that_decide_are_without_what_they_expect_in_the_same_process(seed: int):
    blind = [{form.change.place for form in one.forms if form.withholds} for one in drawn(seed)]
    assert [own for own in blind if own] == [{NodeId.of(test).place for test in DECISIVE}]
    assert not blind[0], "in the first process all are true"


def test_the_processes_come_in_any_order():
    whole = {
        next(at for at, one in enumerate(drawn(seed)) if set(one.hidden.tests) == set(TESTS)) for seed in range(40)
    }
    assert whole == set(range(1, PROCESSES))


@SEEDS
def test_each_form_of_a_function_that_decides_has_its_turn_before_one_comes_again(seed: int):
    for test in DECISIVE:
        place = NodeId.of(test).place
        met = [form for one in drawn(seed) for form in one.forms if form.change.place == place and not form.withholds]
        assert len(set(met)) == len(met)
