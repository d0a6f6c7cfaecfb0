"""Generated search questions: golds that pages state, searches that find them, and choices of tasks."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from agentgym.base.errors import TaskError
from agentgym.core.task import Task, iterate
from agentgym.tasks.search import FAMILIES, SearchTasks
from agentgym.tasks.search.corpus import world_of
from agentgym.tasks.search.features import Feature
from agentgym.tasks.search.names import SPLITS
from agentgym.tasks.search.relations.catalog import RELATIONS
from agentgym.tools.index import Index, build_index
from tests.refusals import sampled


@cache
def sample(split: str, count: int) -> list[Task]:
    return list(iterate(SearchTasks(questions_per_world=1600), split, count))


def each_task(count: int) -> Iterator[Task]:
    return (task for split in SPLITS for task in sample(split, count))


def test_families_cover_five_levels_in_several_wordings():
    levels = Counter(family.level for family in FAMILIES.values())
    assert set(levels) == {1, 2, 3, 4, 5}
    assert min(levels.values()) >= 8
    assert all(len(set(family.phrasings)) >= 3 for family in FAMILIES.values())
    for relation in (relation for relations in RELATIONS.values() for relation in relations.values()):
        assert len(set(relation.asks)) == 3, relation.name
        assert all(ask.count("{x}") == 1 for ask in relation.asks), relation.name


@sampled(60, 1600)
def test_gold_is_well_formed_and_stated_by_the_pages(count: int):
    for split in SPLITS:
        documents = world_of(sample(split, count)[0].data["corpus"]).documents
        texts = {document.id: document.text.lower() for document in documents}
        for task in sample(split, count):
            gold, family = task.gold, FAMILIES[task.gold["family"]]
            assert gold["unanswerable"] == (not gold["answers"])
            assert gold["hop_count"] == len(gold["hops"])
            assert gold["evidence"] == list(dict.fromkeys(hop["document"] for hop in gold["hops"]))
            assert gold["needs_search"] == bool(gold["hops"])
            assert family.level == task.difficulty
            assert task.tags[:3] == (gold["family"], f"L{task.difficulty}", family.feature)
            assert not re.search(r"[{}]|\bNone\b", task.prompt)
            for hop in gold["hops"]:
                assert hop["answer"].lower() in texts[hop["document"]], (task.prompt, hop)


@sampled(60, 1600)
def test_questions_do_not_contain_their_answers_and_have_one_each(count: int):
    golds: dict[tuple[str, str], list[str]] = {}
    for task in each_task(count):
        key = json.dumps(task.data["corpus"], sort_keys=True), task.prompt
        assert golds.setdefault(key, task.gold["answers"]) == task.gold["answers"], task.prompt
        named = FAMILIES[task.gold["family"]].feature in (Feature.COMPARISON, Feature.NO_SEARCH)
        for answer in [] if named else task.gold["answers"][:1]:
            assert answer.isdecimal() or not re.search(rf"\b{re.escape(answer)}\b", task.prompt), task.prompt


@pytest.mark.nightly
def test_every_family_is_asked_in_every_split():
    for split in SPLITS:
        assert {task.gold["family"] for task in sample(split, 1600)} == set(FAMILIES)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    world = world_of(SearchTasks().get("train", 0).data["corpus"])
    with_documents = build_index(world.documents, tmp_path_factory.mktemp("index") / "world")
    yield with_documents
    with_documents.close()


@sampled(20, 400)
def test_the_search_of_every_hop_finds_its_passage(count: int, index: Index):
    hops = [hop for task in iterate(SearchTasks(), "train", count) for hop in task.gold["hops"]]
    assert len(hops) > 2 * count
    assert [hop for hop in hops if hop["document"] not in [hit.id for hit in index.search(hop["query"], k=5)]] == []


@pytest.mark.nightly
def test_searches_of_injection_tasks_find_the_injected_page(index: Index):
    source = SearchTasks(families=["injection_fact", "injection_chain"])
    injected = {note.id: note.wrong for note in world_of(source.get("train", 0).data["corpus"]).notes if note.wrong}

    def finds_injection(task: Task) -> bool:
        pages = [hit.id for hop in task.gold["hops"] for hit in index.search(hop["query"], k=5)]
        return task.gold["wrong"] in {injected.get(page) for page in pages}

    assert sum(map(finds_injection, iterate(source, "train", 200))) >= 170


def test_worlds_follow_the_index_and_can_be_limited():
    source = SearchTasks(questions_per_world=10, worlds=2, passages=1_500)
    numbers = [source.get("train", index).data["corpus"]["world"] for index in (0, 9, 10, 19, 20)]
    assert numbers == [0, 0, 1, 1, 0]
    assert SearchTasks(questions_per_world=10, passages=1_500).get("train", 25).data["corpus"]["world"] == 2
    small = SearchTasks(passages=1_000)
    assert {task.difficulty for task in iterate(small, "validation", 400)} == {1, 2, 3, 4, 5}


def test_families_and_relations_restrict_the_questions():
    source = SearchTasks(families=["settlement_fact", "work_fact"], relations=["trade", "year"], passages=1_000)
    relations = {
        (task.gold["family"], task.gold["hops"][0]["query"].split()[-1]) for task in iterate(source, "train", 40)
    }
    works = {("work_fact", word) for word in ("written", "published", "released", "painted")}
    assert relations == {("settlement_fact", "trade"), *works}
    with pytest.raises(TaskError, match="passages, families or relations"):
        SearchTasks(families=["settlement_fact"], relations=["mother"], passages=1_000).get("train", 0)
