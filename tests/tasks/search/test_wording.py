"""Every search question reads like a person's, in every phrasing."""

from __future__ import annotations

import re
from random import Random

import pytest

from agentgym.messages import text_of
from agentgym.procedural import NoFit
from agentgym.registry import make
from agentgym.tasks.search import SearchTasks
from agentgym.tasks.search.questions import FAMILIES, Draft, in_prose
from agentgym.tasks.search.relations.catalog import RELATIONS
from agentgym.tasks.search.scene import Scene, noun
from agentgym.tasks.search.world import open_world

ODD = re.compile(r"  | [,.?]|[{}]|\b[Aa] [aeiou]|\b[Aa]n [^aeiou]|\bNone\b|\bthe the\b|\bthe \w+'s the\b|\.\?|\?\?")


def drafts(name: str, count: int = 12) -> list[Draft]:
    found: list[Draft] = []
    rng = Random(name)
    for tries in range(20_000):
        try:
            found.append(FAMILIES[name].draw(Scene(open_world("train", tries % 4, 0, 1_000), rng)))
        except NoFit:
            continue
        if len(found) == count:
            break
    assert found
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_every_phrasing_is_used_and_none_shows_how_it_was_put_together(name: str):
    family = FAMILIES[name]
    phrasings = {*family.phrasings, *family.plain}
    assert len(set(family.phrasings)) >= 3
    for draft in drafts(name):
        used = {family.word(draft, Random(seed)) for seed in range(60)}
        assert used == {in_prose(phrasing.format_map(draft.words)) for phrasing in family.phrasings}
        for text in (phrasing.format_map(draft.words) for phrasing in phrasings):
            assert not ODD.search(text), text
            assert text[-1] in ".?", text


@pytest.mark.parametrize(
    ("put_together", "said"),
    [
        ("Who was rector of University of Rimskend?", "Who was rector of the University of Rimskend?"),
        ("Did Ada found Récilia Academy of Sciences?", "Did Ada found the Récilia Academy of Sciences?"),
        ("When was the University of Rimskend founded?", "When was the University of Rimskend founded?"),
        ("When was Badér University founded?", "When was Badér University founded?"),
        ("Where is the Khiban Days?", "Where are the Khiban Days?"),
        ("Is the theme of the Khiban Days wool?", "Is the theme of the Khiban Days wool?"),
        ("Ada won. the Khiban Days was founded in 1860.", "Ada won. The Khiban Days were founded in 1860."),
        ("the Khiban Fair has a patron. Who?", "The Khiban Fair has a patron. Who?"),
        ("Take 1657 as the founding year of the Rerus Award.", "Take 1657 as the founding year of the Rerus Award."),
    ],
)
def test_names_stand_in_a_question_as_in_english(put_together: str, said: str):
    assert in_prose(put_together) == said
    assert in_prose(said) == said


def test_every_relation_is_asked_for_in_three_ways():
    for relations in RELATIONS.values():
        for relation in relations.values():
            assert len(set(relation.asks)) >= 3, relation.name
            assert all(ask.count("{x}") == 1 for ask in relation.asks), relation.name


def test_people_own_their_relatives_and_works_do_not():
    world = open_world("train", 0, 0, 1_000)
    person = next(p for p in world.of("person") if not p.qualifier)
    work = world.of("song")[0]
    assert noun(person, "father") == f"{person.name}'s father"
    assert noun(person, "father", f"{person.name}'s mother") == f"{person.name}'s mother's father"
    assert noun(person, "father", noun(work, "creator")) == f"the father of the composer of {work.mention}"


def test_the_wording_changes_nothing_but_the_text():
    natural, plain = SearchTasks(difficulty=1), SearchTasks(difficulty=1, wording="plain")
    pairs = [(natural.get("train", index), plain.get("train", index)) for index in range(60)]
    assert all((one.id, one.gold, one.tags) == (other.id, other.gold, other.tags) for one, other in pairs)
    assert any(one.prompt != other.prompt for one, other in pairs)


def test_the_system_message_says_how_to_answer_once():
    for wording in ("natural", "plain"):
        env = make("search", wording=wording)
        observation, _ = env.reset(seed=2)
        prompt = text_of(observation[0])
        assert prompt.count("answer: unknown") == 1
        assert prompt.count("instructions in them") == 1
        assert ("You have 30 turns" in prompt) == (wording == "natural")
        env.close()
