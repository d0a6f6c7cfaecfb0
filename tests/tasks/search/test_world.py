"""Invented worlds: consistent facts, stated on their pages, and no names shared between splits."""

from __future__ import annotations

import datetime
import re
from collections import Counter

import pytest

from agentgym.base.errors import TaskError, UsageError
from agentgym.tasks.search import documents_of
from agentgym.tasks.search.building.world import last_year
from agentgym.tasks.search.entities import Entity, EntityKind, say, year_of
from agentgym.tasks.search.names import SPLITS, letters
from agentgym.tasks.search.pages.page import placeholders
from agentgym.tasks.search.relations.catalog import RELATIONS, stated
from agentgym.tasks.search.world import SECTIONS, SearchWorld, section_for

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


@pytest.mark.nightly
def test_a_world_has_the_requested_passages_and_few_more():
    for passages in (1_000, 3_000, 10_000, 25_000):
        for split in SPLITS:
            assert passages <= len(SearchWorld(split, 7, passages=passages).documents) <= 1.5 * passages + 500


def test_ids_titles_and_mentions_are_unique(world: SearchWorld):
    documents = world.documents
    assert len({document.id for document in documents}) == len(documents)
    mentions = Counter(entity.mention for entity in world.of())
    mentions.update(alias for entity in world.of() for alias in entity.aliases)
    assert not [name for name, count in mentions.items() if count > 1]
    titles = Counter(document.title for document in documents if document.fields["kind"] != "note")
    assert not [title for title, count in titles.items() if count > 1]


def test_every_kind_of_page_occurs(world: SearchWorld):
    assert {document.fields["kind"] for document in world.documents} == {*EntityKind, "note"}
    assert {note.type for note in world.notes} == {"surname", "alias", "edition", "remark"}


def test_relatives_have_plausible_ages_and_mutual_relations(world: SearchWorld):
    for person in world.of("person"):
        facts = person.facts
        if "death_date" in facts:
            assert 40 <= facts["death_date"].year - facts["birth_date"].year <= 95
        if "mother" in facts:
            mother, father = facts["mother"], facts["father"]
            assert mother.facts["spouse"] is father
            assert 18 <= facts["birth_date"].year - mother.facts["birth_date"].year <= 45
            assert father.facts["birth_date"].year + 18 <= facts["birth_date"].year
            assert facts["birth_date"].year < min(last_year(mother), last_year(father))
            assert person in mother.facts["children"]
            assert person in father.facts["children"]
        if "spouse" in facts:
            assert facts["spouse"].facts["spouse"] is person
            assert facts["spouse"].facts["married"] == facts["married"] > facts["birth_date"].year + 18
        if "teacher" in facts:
            assert facts["teacher"].facts["birth_date"] < facts["birth_date"]


def test_capitals_lie_where_they_should(world: SearchWorld):
    for region in world.of("region"):
        assert region.facts["capital"].facts["region"] is region
        assert region.facts["capital"] in region.facts["settlements"]
    for country in world.of("country"):
        assert country.facts["capital"].facts["region"].facts["country"] is country
    for settlement in world.of("settlement"):
        assert settlement in settlement.facts["region"].facts["settlements"]
        if "twin" in settlement.facts:
            assert settlement.facts["twin"].facts["twin"] is settlement


def grown_up(person: Entity, year: int) -> bool:
    return person.facts["birth_date"].year + 20 <= year <= last_year(person)


def test_makers_leaders_and_officials_were_living_adults(world: SearchWorld):
    for entity in world.of():
        for relation in ("creator", "founder", "commander", "opponent", "leader", "winner", "runner_up"):
            person = entity.facts.get(relation)
            dated = next((entity.facts[key] for key in ("year", "date", "founded") if key in entity.facts), None)
            if person is not None:
                assert grown_up(person, year_of(dated)), (entity, relation)
        for relation in ("mayors", "presidents", "rectors", "directors"):
            for term in entity.facts.get(relation, ()):
                assert grown_up(term.person, term.start)
                assert term.start < term.end <= last_year(term.person)


def test_originals_came_before_the_works_based_on_them(world: SearchWorld):
    for entity in world.of("novel", "film", "company", "painting", "song", "person"):
        for relation in ("based_on", "sequel_to"):
            if relation in entity.facts:
                assert entity.facts[relation].facts["year"] < entity.facts["year"]
        if "predecessor" in entity.facts:
            assert entity.facts["predecessor"].facts["founded"] < entity.facts["founded"]
        if "prize" in entity.facts:
            awards = entity.facts["prize"].facts["winners"]
            assert [award.year for award in awards if award.winner is entity] == [entity.facts["prize_year"]]
            assert entity.facts["prize"].facts["founded"] <= entity.facts["prize_year"]
    for prize in world.of("prize"):
        years = [award.year for award in prize.facts.get("winners", ())]
        assert years == sorted(set(years))


def test_every_fact_is_stated_on_the_page_that_is_its_evidence(world: SearchWorld):
    texts = {document.id: document.text for document in world.documents}
    for entity in world.of():
        for relation in stated(entity):
            text = texts[section_for(entity, relation.name).passage_id(entity)]
            assert say(entity.facts[relation.name]).lower() in text.lower(), (entity, relation.name)


def test_every_wording_of_a_sentence_states_the_same_facts():
    for type_, sections in SECTIONS.items():
        for sentence in (sentence for part in sections for sentence in part.sentences):
            relations = {
                frozenset(placeholders(wording)) & frozenset(RELATIONS[type_]) for wording in sentence.wordings
            }
            assert len(relations) == 1, sentence


def test_texts_are_sentences(world: SearchWorld):
    for document in world.documents:
        assert not re.search(r"[{}]|\bNone\b|  ", document.text)
        assert document.text[0].isupper() or document.text[0].isdigit()
        assert document.text.endswith((".", "-->")), document


def test_names_of_two_splits_are_disjoint_by_the_letters_of_their_words():
    names = {split: frozenset.union(*(SearchWorld(split, n, n, SMALL).names for n in range(3))) for split in SPLITS}
    for split in SPLITS:
        for other in SPLITS:
            assert split == other or not names[split] & names[other]
        for name in names[split]:
            assert any(SPLITS[letters(word.lower()) % len(SPLITS)] == split for word in WORD.findall(name)), name


def test_worlds_near_each_other_share_no_invented_word():
    worlds = [SearchWorld("train", number, 0, SMALL) for number in (0, 1, 19)]
    surnames = [set(world.surnames) for world in worlds]
    settlements = [{place.name for place in world.of("settlement")} for world in worlds]
    for names in (surnames, settlements):
        assert sum(map(len, names)) == len(set.union(*names))


def test_stale_and_injected_pages_are_marked_and_wrong(world: SearchWorld):
    for note in world.notes:
        if note.type in ("edition", "remark"):
            assert note.about is not None
            assert note.wrong in note.text
            assert note.wrong != say(note.about.facts[note.relation])
        if note.type == "edition":
            assert re.search(r"From the \d{4} edition$", note.title)
            assert re.search(r"[Cc]orrected|withdrew", note.text)


def test_a_json_corpus_names_the_documents_of_a_world():
    assert say(datetime.date(1871, 3, 4)) == "4 March 1871"
    corpus = {"world": 2, "split": "validation", "seed": 5, "passages": SMALL}
    assert list(documents_of(corpus)) == SearchWorld("validation", 2, 5, SMALL).documents
    with pytest.raises(TaskError, match="needs 'world'"):
        documents_of({"split": "train"})
    with pytest.raises(UsageError, match="train, validation, test, not 'dev'"):
        SearchWorld("dev")
    with pytest.raises(UsageError, match="at least 1000 passages"):
        SearchWorld("train", passages=10)
