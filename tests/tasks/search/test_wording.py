"""Every phrasing of a search question is plain English."""

from __future__ import annotations

import re
from random import Random

import pytest

from agentgym.procedural import NoFit
from agentgym.tasks.search.questions import FAMILIES, QuestionDraft, QuestionScene, in_prose, noun
from agentgym.tasks.search.world import open_world

pytestmark = pytest.mark.nightly

ODD = re.compile(r"  | [,.?]|[{}]|\b[Aa] [aeiou]|\b[Aa]n [^aeiou]|\bNone\b|\bthe the\b|\bthe \w+'s the\b|\.\?|\?\?")


def drafts(name: str, count: int = 12) -> list[QuestionDraft]:
    result: list[QuestionDraft] = []
    rng = Random(name)
    for number in range(20_000):
        try:
            result.append(FAMILIES[name].draw(QuestionScene(open_world("train", number % 4, 0, 1_000), rng)))
        except NoFit:
            continue
        if len(result) == count:
            break
    assert result
    return result


def test_every_phrasing_is_used_and_well_formed():
    for name, family in FAMILIES.items():
        for draft in drafts(name):
            used = {family.word(draft, Random(seed)) for seed in range(60)}
            assert used == {in_prose(phrasing.format_map(draft.words)) for phrasing in family.phrasings}
            texts = [phrasing.format_map(draft.words) for phrasing in {*family.phrasings, *family.plain}]
            assert [text for text in texts if ODD.search(text) or text[-1] not in ".?"] == [], name


PROSE = [
    ("Who was rector of University of Rimskend?", "Who was rector of the University of Rimskend?"),
    ("Did Ada found Récilia Academy of Sciences?", "Did Ada found the Récilia Academy of Sciences?"),
    ("When was the University of Rimskend founded?", "When was the University of Rimskend founded?"),
    ("When was Badér University founded?", "When was Badér University founded?"),
    ("Where is the Khiban Days?", "Where are the Khiban Days?"),
    ("Is the theme of the Khiban Days wool?", "Is the theme of the Khiban Days wool?"),
    ("Ada won. the Khiban Days was founded in 1860.", "Ada won. The Khiban Days were founded in 1860."),
    ("the Khiban Fair has a patron. Who?", "The Khiban Fair has a patron. Who?"),
    ("Take 1657 as the founding year of the Rerus Award.", "Take 1657 as the founding year of the Rerus Award."),
]


def test_names_in_questions_follow_english_grammar():
    assert [row for row in PROSE if in_prose(row[0]) != row[1] or in_prose(row[1]) != row[1]] == []


def test_only_people_take_the_possessive():
    world = open_world("train", 0, 0, 1_000)
    person = next(person for person in world.of("person") if not person.qualifier)
    work = world.of("song")[0]
    assert noun(person, "father") == f"{person.name}'s father"
    assert noun(person, "father", f"{person.name}'s mother") == f"{person.name}'s mother's father"
    assert noun(person, "father", noun(work, "creator")) == f"the father of the composer of {work.mention}"
