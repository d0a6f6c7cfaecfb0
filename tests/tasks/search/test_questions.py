"""Generated search questions: golds that pages state, searches that find them, and choices of tasks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache

import pytest

from agentgym.core.task import Task, iterate
from agentgym.tasks.search import FAMILIES, SearchTasks
from agentgym.tasks.search.names import SPLITS
from agentgym.tasks.search.questions import Feature
from agentgym.tasks.search.world import world_of
from agentgym.tools.index import Index, build_index
from tests.refusals import sampled


@cache
def sample(split: str, count: int) -> list[Task]:
    return list(iterate(SearchTasks(questions_per_world=1600), split, count))


def each_task(count: int) -> Iterator[Task]:
    return (task for split in SPLITS for task in sample(split, count))


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
