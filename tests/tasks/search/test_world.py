"""Invented worlds: consistent facts, stated on their pages, and no names shared between splits."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from agentgym.tasks.search.entities import say
from agentgym.tasks.search.names import SPLITS, letters
from agentgym.tasks.search.pages import section_for
from agentgym.tasks.search.relations import stated
from agentgym.tasks.search.world import SearchWorld

SMALL = 2_000
WORD = re.compile(r"[^\W\d_]+")


@pytest.fixture(scope="module", params=[SMALL, pytest.param(None, marks=pytest.mark.nightly)], ids=["small", "whole"])
def world(request: pytest.FixtureRequest) -> SearchWorld:
    return SearchWorld("train") if request.param is None else SearchWorld("train", passages=request.param)


def test_a_world_depends_on_its_arguments_alone():
    world, again = SearchWorld("train", 3, 1, SMALL), SearchWorld("train", 3, 1, SMALL)
    assert world.documents == again.documents
    others = [SearchWorld("train", 4, 1, SMALL), SearchWorld("train", 3, 2, SMALL), SearchWorld("test", 3, 1, SMALL)]
    assert all(world.documents != other.documents for other in others)


def test_ids_titles_and_mentions_are_unique(world: SearchWorld):
    documents = world.documents
    assert len({document.id for document in documents}) == len(documents)
    mentions = Counter(entity.mention for entity in world.of())
    mentions.update(alias for entity in world.of() for alias in entity.aliases)
    assert not [name for name, count in mentions.items() if count > 1]
    titles = Counter(document.title for document in documents if document.fields["kind"] != "note")
    assert not [title for title, count in titles.items() if count > 1]


def test_every_fact_is_stated_on_the_page_that_is_its_evidence(world: SearchWorld):
    texts = {document.id: document.text for document in world.documents}
    for entity in world.of():
        for relation in stated(entity):
            text = texts[section_for(entity, relation.name).passage_id(entity)]
            assert say(entity.facts[relation.name]).lower() in text.lower(), (entity, relation.name)


def test_names_of_two_splits_are_disjoint_by_the_letters_of_their_words():
    names = {split: frozenset.union(*(SearchWorld(split, n, n, SMALL).names for n in range(3))) for split in SPLITS}
    for split in SPLITS:
        for other in SPLITS:
            assert split == other or not names[split] & names[other]
        for name in names[split]:
            assert any(SPLITS[letters(word.lower()) % len(SPLITS)] == split for word in WORD.findall(name)), name
