"""The generated programming tasks: right, fair, the same every time, and never in two splits."""

from __future__ import annotations

import ast
import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from copy import deepcopy
from functools import cache
from itertools import permutations
from random import Random
from typing import Any

import pytest

from agentgym.errors import TaskError, UsageError
from agentgym.task import Task, TaskSource, iterate
from agentgym.tasks.code import FAMILIES, Area, CodeTasks, Family, Kind
from agentgym.tasks.code.bugs import edits
from agentgym.tasks.code.cases import KILLS, Trial
from agentgym.tasks.code.families import Function
from agentgym.tasks.code.running import load, outcomes, printed

SPLITS = ("train", "validation", "test", "test_unseen")
ANSWERS = [name for name, family in FAMILIES.items() if family.kind in (Kind.VALUE, Kind.PREDICT)]
FUNCTIONS = [name for name, family in FAMILIES.items() if family.kind is Kind.FUNCTION]
FIXES = [name for name, family in FAMILIES.items() if family.kind is Kind.FIX]
TINY = [name for name in FAMILIES if name.startswith("tiny_")]


@cache
def tasks_of(name: str, count: int) -> list[Task]:
    source = CodeTasks(families=[name])
    return list(iterate(source, source.splits[0], count))


def drawn(name: str, seed: int = 0) -> Function:
    draft = FAMILIES[name].draw(Random(f"{name}/{seed}"))
    assert isinstance(draft, Function)
    return draft


def fails(code: str, task: Task) -> int:
    """Hidden cases that some source fails."""
    inputs = [ast.literal_eval(case["args"]) for case in task.gold["cases"]]
    expected = [ast.literal_eval(case["expect"]) for case in task.gold["cases"]]
    results = outcomes(load(code, task.data["entry_point"]), inputs)
    return sum(type(mine) is not type(right) or mine != right for mine, right in zip(results, expected, strict=True))


def problem(task: Task) -> str:
    """What makes a task the same as another: its program, or the function that it shows."""
    return task.gold["code"].split("\n\n\nprint(repr(")[0] if task.tags[1].startswith("trace_") else task.gold["code"]


def test_is_a_task_source_with_four_endless_splits():
    source = CodeTasks()
    assert isinstance(source, TaskSource)
    assert source.splits == SPLITS
    assert [source.size(split) for split in SPLITS] == [None] * 4


def test_there_are_enough_families_in_every_area_kind_and_level():
    seen = [family for family in FAMILIES.values() if not family.held_out]
    assert len(seen) >= 44
    assert {family.area for family in seen} == set(Area)
    assert {family.kind for family in seen} == set(Kind)
    assert min(Counter(family.level for family in seen)[level] for level in range(1, 6)) >= 6
    assert all(len(set(family.phrasings)) >= 3 for family in FAMILIES.values())


def test_same_source_gives_the_same_tasks_in_any_order():
    forward = [CodeTasks().get("train", index) for index in range(60)]
    source = CodeTasks()
    assert [source.get("train", index) for index in reversed(range(60))][::-1] == forward
    assert [CodeTasks(seed=1).get("train", index) for index in range(60)] != forward


@pytest.mark.parametrize("hash_seed", ["1", "77"])
def test_another_process_gives_the_same_tasks(hash_seed: str):
    code = (
        "from agentgym.tasks.code import CodeTasks\n"
        "print([CodeTasks(seed=4).get(s, i).hash for s in ('test', 'test_unseen') for i in range(70)])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    source = CodeTasks(seed=4)
    assert ast.literal_eval(done.stdout) == [
        source.get(split, i).hash for split in ("test", "test_unseen") for i in range(70)
    ]


def test_a_pickled_source_gives_the_same_tasks():
    source = CodeTasks(difficulty=[1, 5], kinds=["value", "fix"])
    assert list(iterate(pickle.loads(pickle.dumps(source)), "test", 20)) == list(iterate(source, "test", 20))


def test_tasks_are_json_and_ids_find_them():
    source = CodeTasks()
    for split in SPLITS:
        for task in iterate(source, split, 20):
            assert source.find(task.id) == task
            assert json.loads(json.dumps(task.to_dict())) == task.to_dict()


@pytest.mark.parametrize("task_id", ["code/train/x", "code/train", "code/dev/1", "sql/train/1", "code/train/1/2", ""])
def test_ids_that_name_no_task_are_refused(task_id: str):
    with pytest.raises(TaskError, match="code/train/0"):
        CodeTasks().find(task_id)


def test_no_problem_is_in_two_splits():
    owner: dict[str, str] = {}
    hashes: dict[str, str] = {}
    sources = [(CodeTasks(), 220), (CodeTasks(seed=3), 120), (CodeTasks(kinds=["value", "predict"], seed=9), 800)]
    for source, count in sources:
        for split in SPLITS:
            for task in iterate(source, split, count):
                assert owner.setdefault(problem(task), split) == split, task.id
                assert hashes.setdefault(task.hash, split) == split, task.id


def test_held_out_families_are_in_test_unseen_and_nowhere_else():
    held_out = {name for name, family in FAMILIES.items() if family.held_out}
    for split in SPLITS:
        seen = {task.tags[1] for task in iterate(CodeTasks(), split, 120)}
        assert seen <= (held_out if split == "test_unseen" else set(FAMILIES) - held_out)
    assert {FAMILIES[name].kind for name in held_out} == set(Kind)
    assert {FAMILIES[name].level for name in held_out} == set(range(1, 6))


def test_levels_and_families_come_up_equally_often():
    assert Counter(task.difficulty for task in iterate(CodeTasks(), "train", 50)) == dict.fromkeys(range(1, 6), 10)
    tasks = list(iterate(CodeTasks(difficulty=1), "train", 34))
    assert set(Counter(task.tags[1] for task in tasks).values()) == {2}


def test_choices_restrict_the_tasks():
    source = CodeTasks(difficulty=[1, 2], kinds="value", families=["tiny_sum", "shopping", "route", "adjust_number"])
    assert {task.tags[1] for task in iterate(source, "train", 20)} == {"tiny_sum", "shopping"}
    assert source.splits == SPLITS[:3]
    assert CodeTasks(families="tiny_distinct").splits == ("test_unseen",)


@pytest.mark.parametrize(
    ("choice", "said"),
    [({"kinds": ["guess"]}, "predict"), ({"families": ["none"]}, "tiny_sum"), ({"difficulty": 6}, "1, 2, 3, 4, 5")],
)
def test_unknown_choices_are_refused_with_the_valid_ones(choice: dict[str, Any], said: str):
    with pytest.raises(UsageError, match=said):
        CodeTasks(**choice)


def test_choices_that_leave_nothing_are_refused():
    with pytest.raises(UsageError, match="at once"):
        CodeTasks(families=["tiny_sum"], kinds=["fix"])


@pytest.mark.parametrize("name", ANSWERS)
def test_gold_programs_print_the_answer_a_literal(name: str):
    for task in tasks_of(name, 40)[:8]:
        assert task.tags == (FAMILIES[name].kind.value, name, FAMILIES[name].area.value)
        assert printed(task.gold["code"]) == task.gold["answer"]
        ast.literal_eval(task.gold["answer"])


@pytest.mark.parametrize("name", ANSWERS)
def test_no_constant_answer_is_right_for_many_tasks_of_a_family(name: str):
    tasks = tasks_of(name, 40)
    assert Counter(task.gold["answer"] for task in tasks).most_common(1)[0][1] < 0.3 * len(tasks)


@pytest.mark.parametrize("name", FUNCTIONS + FIXES)
def test_gold_functions_pass_their_examples_and_hidden_cases(name: str):
    for task in tasks_of(name, 5):
        call = load(task.gold["code"], task.data["entry_point"])
        for case in [*task.data["examples"], *task.gold["cases"]]:
            args = ast.literal_eval(case["args"])
            before, expected = deepcopy(args), ast.literal_eval(case["expect"])
            result = call(*args)
            assert (result, type(result)) == (expected, type(expected))
            assert args == before


@pytest.mark.parametrize("name", FUNCTIONS + FIXES)
def test_hidden_cases_are_many_and_not_shown(name: str):
    for task in tasks_of(name, 5):
        hidden = [case["args"] for case in task.gold["cases"]]
        assert len(set(hidden)) == len(hidden) >= 8
        assert 2 <= len(task.data["examples"]) <= 3
        assert not set(hidden) & {case["args"] for case in task.data["examples"]}
        shown = task.prompt.splitlines()
        for case in task.gold["cases"]:
            inner = case["args"][1:-1].removesuffix(",")
            assert f"{task.data['entry_point']}({inner}) -> {case['expect']}" not in shown


@pytest.mark.parametrize("name", FUNCTIONS + FIXES)
def test_no_constant_result_passes_most_hidden_cases(name: str):
    for task in tasks_of(name, 5):
        results = Counter(case["expect"] for case in task.gold["cases"])
        assert max(results.values()) <= 0.6 * len(task.gold["cases"])


@pytest.mark.parametrize("name", FIXES)
def test_bugs_fail_at_least_two_hidden_cases(name: str):
    for task in tasks_of(name, 12):
        assert fails(task.data["code"], task) >= 2
        assert fails(task.gold["code"], task) == 0
        assert task.data["code"] in task.prompt


@pytest.mark.parametrize("name", FUNCTIONS)
def test_near_misses_fail_at_least_two_hidden_cases(name: str):
    trial = Trial(drawn(name), Random(name))
    killers = [found for found in trial._killers.values() if len(found) >= KILLS]
    assert killers
    assert all(len(found & set(trial.hidden)) >= KILLS for found in killers)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_one_memorised_program_is_wrong_for_most_tasks_of_its_family(name: str):
    tasks = tasks_of(name, 5)
    wrong = [fails(mine.gold["code"], other) > 0 for mine, other in permutations(tasks, 2)]
    assert sum(wrong) >= 0.7 * len(wrong)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_families_have_many_distinct_functions(name: str):
    assert len({drawn(name, seed).source for seed in range(60)}) >= 48


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_edit_of_a_function_can_run_forever(name: str):
    for seed in range(8):
        tree = ast.parse(drawn(name, seed).source)
        for node in ast.walk(tree):
            assert not isinstance(node, ast.While)
            if isinstance(node, ast.FunctionDef):
                assert node.name not in {found.id for found in ast.walk(node) if isinstance(found, ast.Name)}
            if isinstance(node, ast.For) and isinstance(node.iter, ast.Name):
                grown = {ast.unparse(found.func) for found in ast.walk(node) if isinstance(found, ast.Call)}
                assert not {f"{node.iter.id}.{method}" for method in ("append", "extend", "insert")} & grown


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


@pytest.mark.parametrize("name", TINY)
def test_tiny_tasks_are_short_with_one_line_and_a_small_number(name: str):
    assert FAMILIES[name].level == 1
    for task in tasks_of(name, 40):
        assert len(task.prompt) <= 120
        assert task.gold["code"].count("\n") == 1
        assert abs(int(task.gold["answer"])) < 1000


def test_there_are_six_tiny_families_to_train_on():
    assert sum(not FAMILIES[name].held_out for name in TINY) >= 6


def test_only_value_tasks_can_do_without_code():
    for family in FAMILIES.values():
        for task in tasks_of(family.name, 5):
            assert task.data["kind"] == family.kind
            assert task.data["needs_code"] or family.kind is Kind.VALUE
            assert task.data["needs_code"] == _needs_code(family)


def _needs_code(family: Family) -> bool:
    return not (family.name in TINY or family.name in ("shopping", "packing", "daily_change"))


def test_programs_to_predict_are_shown_without_what_they_print():
    for name in ANSWERS:
        if FAMILIES[name].kind is Kind.PREDICT:
            for task in tasks_of(name, 40)[:4]:
                assert task.data["code"] == task.gold["code"]
                assert task.data["code"] in task.prompt


def test_prompts_of_functions_tell_the_signature():
    for name in FUNCTIONS:
        for task in tasks_of(name, 5)[:2]:
            assert task.data["signature"] in task.prompt
            assert task.data["signature"].startswith(f"def {task.data['entry_point']}(")
