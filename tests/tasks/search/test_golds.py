"""The gold answers of generated search questions follow from the pages of their hops, family by family."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from agentgym.core.task import Task, iterate
from agentgym.tasks.search import FAMILIES, SearchTasks
from agentgym.tasks.search.entities import MONTHS, Entity
from agentgym.tasks.search.names import SPLITS
from agentgym.tasks.search.questions import Feature
from agentgym.tasks.search.world import world_of

pytestmark = pytest.mark.nightly


@cache
def tasks() -> list[Task]:
    source = SearchTasks(questions_per_world=1600)
    return [task for split in SPLITS for task in iterate(source, split, 1600)]


def of_family(*names: str) -> list[Task]:
    matching = [task for task in tasks() if task.gold["family"] in names]
    assert matching
    return matching


def with_feature(*features: Feature) -> list[Task]:
    return of_family(*(name for name, family in FAMILIES.items() if family.feature in features))


def facts(task: Task) -> list[str]:
    return [hop["answer"] for hop in task.gold["hops"]]


def first_answer(task: Task) -> str:
    return task.gold["answers"][0]


def number(text: str) -> int:
    return int(text.replace(",", ""))


def date(text: str) -> datetime.date:
    day, month, year = text.split()
    return datetime.date(int(year), MONTHS.index(month) + 1, int(day))


@cache
def entities(world_key: str) -> dict[str, Entity]:
    return {entity.id: entity for entity in world_of(json.loads(world_key)).of()}


def subject(task: Task, hop: int) -> Entity:
    """Return the entity whose article a hop opens."""
    by_id = entities(json.dumps(task.data["corpus"]))
    return by_id["-".join(task.gold["hops"][hop]["document"].split("-")[:2])]


def test_a_chain_ends_in_its_answer_and_each_step_continues_from_the_previous():
    chains = (Feature.CHAIN, Feature.STALE, Feature.INJECTION)
    for task in with_feature(*chains, Feature.ALIAS, Feature.NAMESAKE):
        if task.gold["family"] not in ("holder_birthplace", "count_listed"):
            assert facts(task)[-1] in task.gold["answers"], task.prompt
    for task in with_feature(*chains):
        if task.gold["family"] != "holder_birthplace":
            for step in range(1, task.gold["hop_count"]):
                assert subject(task, step).mention == facts(task)[step - 1]


COMPARISONS: dict[str, tuple[Callable[[Any], Any], Callable[[str], Any], int]] = {
    "born_first": (min, date, 1),
    "most_inhabitants": (max, number, 1),
    "highest_elevation": (max, number, 1),
    "earliest_work": (min, number, 1),
    "founded_first": (min, number, 1),
    "most_casualties": (max, number, 1),
    "oldest_maker": (min, date, 2),
    "largest_birthplace": (max, number, 2),
    "oldest_teacher": (min, date, 2),
}


def test_the_answer_of_a_comparison_is_its_only_winner():
    for name, (pick, value, step) in COMPARISONS.items():
        for task in of_family(name):
            if name == "largest_birthplace" and task.gold["hop_count"] != 6:
                continue  # Two of them were born in the same place: one page serves both.
            hops = range(0, task.gold["hop_count"], step)
            values = {subject(task, hop): value(facts(task)[hop + step - 1]) for hop in hops}
            winners = [entity.name for entity, figure in values.items() if figure == pick(values.values())]
            assert len(values) >= 2
            assert winners == [first_answer(task)], task.prompt


SUMS: dict[str, Callable[[list[str]], int]] = {
    "years_between": lambda facts: abs(number(facts[0]) - number(facts[1])),
    "combined_population": lambda facts: number(facts[0]) + number(facts[1]),
    "age_at_work": lambda facts: number(facts[1]) - date(facts[2]).year,
    "total_pages": lambda facts: sum(map(number, facts[1:])),
    "count_listed": lambda facts: len(re.split(r", | and (?=[^,]*$)", facts[0])),
}


def test_sums_differences_and_ages_follow_from_the_pages():
    for name, result in SUMS.items():
        for task in of_family(name):
            if name == "count_listed" and " and the Sea" in facts(task)[0]:
                continue  # A title with "and" makes the list hard to read for this test.
            assert number(first_answer(task)) == result(facts(task)), task.prompt


def test_stale_and_injected_answers_are_wrong_and_in_the_corpus():
    for feature, key in ((Feature.STALE, "stale"), (Feature.INJECTION, "wrong")):
        for task in with_feature(feature):
            assert task.gold[key] not in task.gold["answers"]
            assert any(note.wrong == task.gold[key] for note in world_of(task.data["corpus"]).notes)
