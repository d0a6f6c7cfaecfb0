"""Generated programming tasks are right and fair: golds pass, bugs and near misses fail, and no constant is right."""

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
from agentgym.tasks.code import FAMILIES, Area, CodeTasks, Kind
from agentgym.tasks.code.bugs import edits
from agentgym.tasks.code.cases import KILLS, Trial
from agentgym.tasks.code.families import Function
from agentgym.tasks.code.running import load, outcomes, printed
from tests.refusals import sampled

SPLITS = ("train", "validation", "test", "test_unseen")
ANSWERS = [name for name, family in FAMILIES.items() if family.kind in (Kind.VALUE, Kind.PREDICT)]
FUNCTIONS = [name for name, family in FAMILIES.items() if family.kind is Kind.FUNCTION]
FIXES = [name for name, family in FAMILIES.items() if family.kind is Kind.FIX]
TINY = [name for name in FAMILIES if name.startswith("tiny_")]
WITHOUT_CODE = (*TINY, "shopping", "packing", "daily_change")


@cache
def tasks_of(name: str, count: int) -> list[Task]:
    source = CodeTasks(families=[name])
    return list(iterate(source, source.splits[0], count))


def each_task(names: Sequence[str], count: int) -> Iterator[Task]:
    return (task for name in names for task in tasks_of(name, count))


def drawn(name: str, seed: int = 0) -> Function:
    draft = FAMILIES[name].draw(Random(f"{name}/{seed}"))
    assert isinstance(draft, Function)
    return draft


def fails(code: str, task: Task) -> int:
    """Return how many hidden cases some source fails."""
    inputs = [ast.literal_eval(case["args"]) for case in task.gold["cases"]]
    expected = [ast.literal_eval(case["expect"]) for case in task.gold["cases"]]
    results = outcomes(load(code, task.data["entry_point"]), inputs)
    return sum(type(mine) is not type(right) or mine != right for mine, right in zip(results, expected, strict=True))


# The source.


def test_there_are_enough_families_in_every_area_kind_and_level():
    seen = [family for family in FAMILIES.values() if not family.held_out]
    assert len(seen) >= 44
    assert {family.area for family in seen} == set(Area)
    assert {family.kind for family in seen} == set(Kind)
    assert min(Counter(family.level for family in seen)[level] for level in range(1, 6)) >= 6
    assert all(len(set(family.phrasings)) >= 3 for family in FAMILIES.values())
    assert sum(not FAMILIES[name].held_out for name in TINY) >= 6


def test_held_out_families_are_in_test_unseen_and_nowhere_else():
    held_out = {name for name, family in FAMILIES.items() if family.held_out}
    for split in SPLITS:
        seen = {task.tags[1] for task in iterate(CodeTasks(), split, 120)}
        assert seen <= (held_out if split == "test_unseen" else set(FAMILIES) - held_out)
    assert {FAMILIES[name].kind for name in held_out} == set(Kind)
    assert {FAMILIES[name].level for name in held_out} == set(range(1, 6))


def test_levels_and_families_take_turns_and_choices_restrict_them():
    assert Counter(task.difficulty for task in iterate(CodeTasks(), "train", 50)) == dict.fromkeys(range(1, 6), 10)
    tasks = list(iterate(CodeTasks(difficulty=1), "train", 34))
    assert set(Counter(task.tags[1] for task in tasks).values()) == {2}
    source = CodeTasks(difficulty=[1, 2], kinds="value", families=["tiny_sum", "shopping", "route", "adjust_number"])
    assert {task.tags[1] for task in iterate(source, "train", 20)} == {"tiny_sum", "shopping"}
    assert source.splits == SPLITS[:3]
    assert CodeTasks(families="tiny_distinct").splits == ("test_unseen",)


# Tasks.


@sampled(1, 8)
def test_gold_programs_print_the_answer_a_literal(count: int):
    for task in each_task(ANSWERS, count):
        family = FAMILIES[task.tags[1]]
        assert task.tags == (family.kind.value, family.name, family.area.value)
        assert printed(task.gold["code"]) == task.gold["answer"]
        ast.literal_eval(task.gold["answer"])
        if family.kind is Kind.PREDICT:
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
def test_hidden_cases_are_many_not_shown_and_not_met_by_a_constant(count: int):
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
def test_data_state_the_kind_the_need_of_code_and_the_signature(count: int):
    for task in each_task(list(FAMILIES), count):
        family = FAMILIES[task.tags[1]]
        assert task.data["kind"] == family.kind
        assert task.data["needs_code"] == (family.name not in WITHOUT_CODE)
        if family.kind is Kind.FUNCTION:
            assert task.data["signature"] in task.prompt
            assert task.data["signature"].startswith(f"def {task.data['entry_point']}(")


@pytest.mark.nightly
def test_no_constant_answer_is_right_for_many_tasks_of_a_family():
    for name in ANSWERS:
        tasks = tasks_of(name, 40)
        assert Counter(task.gold["answer"] for task in tasks).most_common(1)[0][1] < 0.3 * len(tasks), name


@pytest.mark.nightly
def test_near_misses_and_memorised_programs_fail():
    for name in FUNCTIONS:
        trial = Trial(drawn(name), Random(name))
        killers = [cases for cases in trial._killers.values() if len(cases) >= KILLS]
        assert killers, name
        assert all(len(cases & set(trial.hidden)) >= KILLS for cases in killers), name
        wrong = [fails(mine.gold["code"], other) > 0 for mine, other in permutations(tasks_of(name, 5), 2)]
        assert sum(wrong) >= 0.7 * len(wrong), name
        assert len({drawn(name, seed).source for seed in range(60)}) >= 48, name


@pytest.mark.nightly
def test_no_edit_of_a_function_can_run_forever():
    for name in FUNCTIONS:
        for node in (node for seed in range(8) for node in ast.walk(ast.parse(drawn(name, seed).source))):
            assert not isinstance(node, ast.While), name
            if isinstance(node, ast.FunctionDef):
                assert node.name not in {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}, name
            if isinstance(node, ast.For) and isinstance(node.iter, ast.Name):
                calls = {ast.unparse(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call)}
                assert not {f"{node.iter.id}.{method}" for method in ("append", "extend", "insert")} & calls, name


def test_applied_edits_are_taken_back():
    tree = ast.parse(drawn("account").source)
    before = ast.unparse(tree)
    changed = set()
    for edit in edits(tree):
        with edit.applied():
            changed.add(ast.unparse(tree))
    assert before not in changed
    assert len(changed) > 10
    assert ast.unparse(tree) == before
