"""The gold answers of generated search questions follow from the pages of their hops, family by family."""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from agentgym.core.task import Task, iterate
from agentgym.tasks.search import FAMILIES, SearchTasks
from agentgym.tasks.search.corpus import world_of
from agentgym.tasks.search.entities import MONTHS, Entity
from agentgym.tasks.search.features import Feature
from agentgym.tasks.search.names import SPLITS
from agentgym.tasks.search.relations.catalog import RELATIONS

pytestmark = pytest.mark.nightly

YEAR = re.compile(r"\b\d{4}\b")


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


def last_year(task: Task) -> int:
    return int(YEAR.findall(task.prompt)[-1])


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
    for task in of_family("age_at_death"):
        born, died = map(date, facts(task))
        birthday = born.replace(year=born.year + int(first_answer(task)), day=min(born.day, 28))
        assert birthday <= died
        assert died < birthday.replace(year=birthday.year + 1) + datetime.timedelta(days=4)


def test_counts_and_choices_follow_from_the_pages():
    for task in of_family("works_after"):
        assert int(first_answer(task)) == sum(int(year) > last_year(task) for year in facts(task)[1:])
    for task in of_family("makers_children"):
        assert int(first_answer(task)) == sum(date(born).year < last_year(task) for born in facts(task)[2:])
    for task in of_family("children_born_in"):
        places = Counter(place for place in facts(task)[1:] if place in task.prompt)
        assert int(first_answer(task)) == max(places.values())
    for task in of_family("eldest_child", "first_or_last_work", "extreme_settlement"):
        value = date if task.gold["family"] == "eldest_child" else number
        values = {subject(task, i).name: value(facts(task)[i]) for i in range(1, task.gold["hop_count"])}
        pick = max if re.search(r"\blast\b|\blatest\b|highest", task.prompt) else min
        assert pick(values, key=lambda name: values[name]) == first_answer(task), task.prompt
        if task.gold["family"] == "extreme_settlement":
            assert len(values) == len(re.split(", | and ", facts(task)[0]))


def terms(text: str) -> list[tuple[str, int, int]]:
    parts = re.findall(r"(?:^|, | and )(?:the )?(.+?) from (\d{4}) to (\d{4})", text)
    return [(name, int(start), int(end)) for name, start, end in parts]


def test_answers_about_offices_follow_from_the_pages():
    for task in of_family("holder_in_year", "birthplace_mayor"):
        holders = [name for name, start, end in terms(facts(task)[-1]) if start <= last_year(task) <= end]
        assert len(holders) == 1, task.prompt
        assert holders[0].endswith(first_answer(task))
    for task in of_family("longest_term"):
        name, start, end = max(terms(facts(task)[0]), key=lambda term: term[2] - term[1])
        assert name.endswith(first_answer(task))
        assert sum(b - a == end - start for _, a, b in terms(facts(task)[0])) == 1
    for task in of_family("unrecorded_year"):
        assert task.gold["hops"][0]["document"].endswith("-government")
        assert last_year(task) < subject(task, 0).facts["mayors"][0].start
    for task in of_family("holder_before_or_after"):
        successions = [(a, b) for (a, _, end), (b, start, _) in pairwise(terms(facts(task)[0])) if end == start]
        pairs = successions if "after" in task.prompt else [(b, a) for a, b in successions]
        answers = [answer for name, answer in pairs if name in task.prompt]
        assert answers, task.prompt
        assert answers[0].endswith(first_answer(task)), task.prompt


def test_questions_without_search_contain_what_answers_them():
    for task in with_feature(Feature.NO_SEARCH):
        assert task.gold["evidence"] == []
        if task.gold["family"] in ("given_order", "given_passage", "given_terms"):
            assert first_answer(task) in task.prompt
    for task in of_family("given_lifespan"):
        years = sorted({int(year) for year in YEAR.findall(task.prompt)})
        assert years[1] - years[0] == int(first_answer(task))
    for task in of_family("given_sum"):
        assert sum(map(number, re.findall(r"\b\d[\d,]*\b", task.prompt))) == number(first_answer(task))


def fits(ask: str, prompt: str) -> bool:
    start, end = ask.split("{x}")
    return start.lower() in prompt.lower() and prompt.endswith(end)


def test_unanswerable_questions_ask_for_unstated_facts():
    for task in of_family("unstated_fact", "unstated_chain"):
        entity = subject(task, -1)
        relations = RELATIONS[entity.type].items()
        fitting = [name for name, relation in relations if any(fits(ask, task.prompt) for ask in relation.asks)]
        assert set(fitting) - entity.facts.keys(), task.prompt
    for task in of_family("unknown_person"):
        assert task.gold["answers"] == []
        names = world_of(task.data["corpus"]).names
        assert not any(name in task.prompt for name in names if " " in name), task.prompt


def test_stale_and_injected_answers_are_wrong_and_in_the_corpus():
    for feature, key in ((Feature.STALE, "stale"), (Feature.INJECTION, "wrong")):
        for task in with_feature(feature):
            assert task.gold[key] not in task.gold["answers"]
            assert any(note.wrong == task.gold[key] for note in world_of(task.data["corpus"]).notes)
