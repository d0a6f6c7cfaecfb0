"""Generated programming tasks: golds pass, bugs and near misses fail, and constants fail."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import cache
from itertools import permutations
from random import Random

import pytest

from agentgym.core.task import Task, iterate
from agentgym.tasks.code import FAMILIES, Area, CodeTasks, TaskKind
from agentgym.tasks.code.cases import KILLS, Trial
from agentgym.tasks.code.families import Function
from agentgym.tasks.code.running import load, outcomes, output_of
from tests.refusals import sampled

ANSWERS = [name for name, family in FAMILIES.items() if family.kind in (TaskKind.VALUE, TaskKind.PREDICT)]
FUNCTIONS = [name for name, family in FAMILIES.items() if family.kind is TaskKind.FUNCTION]
FIXES = [name for name, family in FAMILIES.items() if family.kind is TaskKind.FIX]
TINY = [name for name in FAMILIES if name.startswith("tiny_")]
WITHOUT_CODE = (*TINY, "shopping", "packing", "daily_change")


@cache
def tasks_of(name: str, count: int) -> list[Task]:
    source = CodeTasks(families=[name])
    return list(iterate(source, source.splits[0], count))


def each_task(names: Sequence[str], count: int) -> Iterator[Task]:
    return (task for name in names for task in tasks_of(name, count))


def draw_function(name: str, seed: int = 0) -> Function:
    draft = FAMILIES[name].draw(Random(f"{name}/{seed}"))
    assert isinstance(draft, Function)
    return draft


def fails(code: str, task: Task) -> int:
    """Return the number of hidden cases that the code fails."""
    inputs = [ast.literal_eval(case["args"]) for case in task.gold["cases"]]
    expected = [ast.literal_eval(case["expect"]) for case in task.gold["cases"]]
    results = outcomes(load(code, task.data["entry_point"]), inputs)
    pairs = zip(results, expected, strict=True)
    return sum(type(actual) is not type(right) or actual != right for actual, right in pairs)


def test_families_cover_every_area_kind_and_level_in_several_wordings():
    families = [family for family in FAMILIES.values() if not family.held_out]
    assert {family.area for family in families} == set(Area)
    assert {family.kind for family in families} == set(TaskKind)
    assert min(Counter(family.level for family in families)[level] for level in range(1, 6)) >= 6
    assert all(len(set(family.phrasings)) >= 3 for family in FAMILIES.values())


def test_held_out_families_cover_every_kind_and_level():
    held_out = [family for family in FAMILIES.values() if family.held_out]
    assert {family.kind for family in held_out} == set(TaskKind)
    assert {family.level for family in held_out} == set(range(1, 6))


def test_choices_restrict_the_families():
    source = CodeTasks(difficulty=[1, 2], kinds="value", families=["tiny_sum", "shopping", "route", "adjust_number"])
    assert {task.tags[1] for task in iterate(source, "train", 20)} == {"tiny_sum", "shopping"}
    assert source.splits == ("train", "validation", "test")
    assert CodeTasks(families="tiny_distinct").splits == ("test_unseen",)


@sampled(1, 8)
def test_gold_programs_print_the_answer_as_a_literal(count: int):
    for task in each_task(ANSWERS, count):
        family = FAMILIES[task.tags[1]]
        assert task.tags == (family.kind.value, family.name, family.area.value)
        assert output_of(task.gold["code"]) == task.gold["answer"]
        ast.literal_eval(task.gold["answer"])
        if family.kind is TaskKind.PREDICT:
            assert task.data["code"] == task.gold["code"]
            assert task.data["code"] in task.prompt
        if family.name in TINY:
            assert (family.level, task.gold["code"].count("\n")) == (1, 1)
            assert len(task.prompt) <= 120
            assert abs(int(task.gold["answer"])) < 1000


@sampled(1, 5)
def test_gold_functions_pass_their_cases_and_leave_arguments_untouched(count: int):
    for task in each_task(FUNCTIONS + FIXES, count):
        call = load(task.gold["code"], task.data["entry_point"])
        for case in [*task.data["examples"], *task.gold["cases"]]:
            arguments = ast.literal_eval(case["args"])
            before, expected = deepcopy(arguments), ast.literal_eval(case["expect"])
            result = call(*arguments)
            assert (result, type(result)) == (expected, type(expected)), task.id
            assert arguments == before, task.id


@sampled(1, 5)
def test_hidden_cases_are_many_unshown_and_fail_constants(count: int):
    for task in each_task(FUNCTIONS + FIXES, count):
        hidden = [case["args"] for case in task.gold["cases"]]
        assert len(set(hidden)) == len(hidden) >= 8
        assert 2 <= len(task.data["examples"]) <= 3
        assert not set(hidden) & {case["args"] for case in task.data["examples"]}
        lines = task.prompt.splitlines()
        for case in task.gold["cases"]:
            arguments = case["args"][1:-1].removesuffix(",")
            assert f"{task.data['entry_point']}({arguments}) -> {case['expect']}" not in lines
        results = Counter(case["expect"] for case in task.gold["cases"])
        assert max(results.values()) <= 0.6 * len(task.gold["cases"]), task.id


@sampled(1, 12)
def test_bugs_are_shown_and_fail_at_least_two_hidden_cases(count: int):
    for task in each_task(FIXES, count):
        assert fails(task.data["code"], task) >= 2, task.id
        assert fails(task.gold["code"], task) == 0, task.id
        assert task.data["code"] in task.prompt


@sampled(1, 5)
def test_data_hold_the_kind_the_need_for_code_and_the_signature(count: int):
    for task in each_task(list(FAMILIES), count):
        family = FAMILIES[task.tags[1]]
        assert task.data["kind"] == family.kind
        assert task.data["needs_code"] == (family.name not in WITHOUT_CODE)
        if family.kind is TaskKind.FUNCTION:
            assert task.data["signature"] in task.prompt
            assert task.data["signature"].startswith(f"def {task.data['entry_point']}(")


@pytest.mark.nightly
def test_no_constant_answer_solves_many_tasks_of_a_family():
    for name in ANSWERS:
        tasks = tasks_of(name, 40)
        assert Counter(task.gold["answer"] for task in tasks).most_common(1)[0][1] < 0.3 * len(tasks), name


@pytest.mark.nightly
def test_near_misses_and_memorised_programs_fail():
    for name in FUNCTIONS:
        trial = Trial(draw_function(name), Random(name))
        killers = [cases for cases in trial._killers.values() if len(cases) >= KILLS]
        assert killers, name
        assert all(len(cases & set(trial.hidden)) >= KILLS for cases in killers), name
        wrong = [fails(task.gold["code"], other) > 0 for task, other in permutations(tasks_of(name, 5), 2)]
        assert sum(wrong) >= 0.7 * len(wrong), name
        assert len({draw_function(name, seed).source for seed in range(60)}) >= 48, name


@pytest.mark.nightly
def test_no_edit_of_a_function_can_run_forever():
    for name in FUNCTIONS:
        for node in (node for seed in range(8) for node in ast.walk(ast.parse(draw_function(name, seed).source))):
            assert not isinstance(node, ast.While), name
            if isinstance(node, ast.FunctionDef):
                assert node.name not in {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}, name
            if isinstance(node, ast.For) and isinstance(node.iter, ast.Name):
                calls = {ast.unparse(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call)}
                assert not {f"{node.iter.id}.{method}" for method in ("append", "extend", "insert")} & calls, name
