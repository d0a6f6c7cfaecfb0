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
from agentgym.tasks.code import FAMILIES, CodeTasks, TaskKind
from agentgym.tasks.code.cases import KILLS, Trial, load, outcomes, output_of
from agentgym.tasks.code.families import Function
from tests.refusals import sampled

ANSWERS = [name for name, family in FAMILIES.items() if family.kind in (TaskKind.VALUE, TaskKind.PREDICT)]
FUNCTIONS = [name for name, family in FAMILIES.items() if family.kind is TaskKind.FUNCTION]
FIXES = [name for name, family in FAMILIES.items() if family.kind is TaskKind.FIX]


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
