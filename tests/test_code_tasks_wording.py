"""Every programming task reads like a request, in every phrasing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import get_args

import pytest

from agentgym.messages import text_of
from agentgym.procedural import NoFit, Wording
from agentgym.registry import make
from agentgym.tasks.code.families import FAMILIES, Draft, Kind
from agentgym.tasks.code.parts import int_map
from agentgym.tasks.code.source import CodeTasks

ODD = re.compile(r"[^.]  [^ ]|\b\d+\. [a-z`]|\bcharacter\(s\)|\b(\w+) \1 (?!\1)(?=is|are|the)|\) \(|: [A-Z][a-z]+ the ")
MANY = re.compile(
    r"(?<![-.*\w])1 (?:\w+ )?(?:edges|moves|counters|minutes|rounds|generations|places|times|vowels|characters|digits"
    r"|days|elements|words|numbers|steps|lines|blocks|positions)\b"
)
ASKED = [name for name, family in FAMILIES.items() if family.kind in (Kind.VALUE, Kind.FUNCTION)]


@cache
def drafts(name: str) -> tuple[Draft, ...]:
    found: list[Draft] = []
    rng = Random(name)
    while len(found) < 30:
        try:
            found.append(FAMILIES[name].draw(rng))
        except NoFit:
            continue
    return tuple(found)


def texts(name: str) -> Iterator[str]:
    for draft in drafts(name):
        for phrasing in FAMILIES[name].phrasings:
            yield phrasing.format_map(draft.words).strip()


@pytest.mark.parametrize("name", FAMILIES)
def test_every_phrasing_is_used(name: str):
    family, draft = FAMILIES[name], drafts(name)[0]
    assert len(set(family.phrasings)) >= 3
    used = {family.word(draft, Random(seed)) for seed in range(100)}
    assert used == {phrasing.format_map(draft.words) for phrasing in family.phrasings}


@pytest.mark.parametrize("name", ASKED)
def test_no_phrasing_shows_how_it_was_put_together(name: str):
    for text in texts(name):
        lines = text.splitlines()
        assert not any(ODD.search(line) or MANY.search(line) for line in lines), text
        # A maze or a table may stand at either end.
        assert lines[0][0].isupper() or not lines[0][0].isalpha(), text
        assert lines[-1][-1] in ".?:" or len(lines) > 1 or name == "count_words", text


def test_no_expression_has_a_comma_that_its_sentence_might_take_for_its_own():
    rng = Random(0)
    drawn = {part.text: part for part in (int_map(rng) for _ in range(2000))}
    assert not [text for text in drawn if "," in text]
    formulas = {text.strip("`"): part.code for text, part in drawn.items() if text.startswith("`")}
    assert formulas
    assert all(said == code for said, code in formulas.items())


def test_the_same_task_has_the_same_text():
    for index in range(40):
        assert CodeTasks().get("train", index) == CodeTasks().get("train", index)


def test_the_wording_changes_the_system_message_alone():
    shown = {}
    for wording in get_args(Wording):
        env = make("code", wording=wording)
        shown[wording], _ = env.reset(seed=5)
        env.close()
    assert shown["natural"][1:] == shown["plain"][1:]
    assert "hidden tests" in text_of(shown["natural"][0])
    assert len(text_of(shown["plain"][0])) < len(text_of(shown["natural"][0]))
