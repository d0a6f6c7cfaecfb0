"""Every phrasing of a programming task is plain English."""

from __future__ import annotations

import re
from functools import cache
from random import Random

import pytest

from agentgym.procedural import NoFit
from agentgym.tasks.code.families import FAMILIES, CodeDraft, TaskKind
from agentgym.tasks.code.parts import int_map

pytestmark = pytest.mark.nightly

ODD = re.compile(r"[^.]  [^ ]|\b\d+\. [a-z`]|\bcharacter\(s\)|\b(\w+) \1 (?!\1)(?=is|are|the)|\) \(|: [A-Z][a-z]+ the ")
MANY = re.compile(
    r"(?<![-.*\w])1 (?:\w+ )?(?:edges|moves|counters|minutes|rounds|generations|places|times|vowels|characters|digits"
    r"|days|elements|words|numbers|steps|lines|blocks|positions)\b"
)


@cache
def drafts(name: str) -> tuple[CodeDraft, ...]:
    result: list[CodeDraft] = []
    rng = Random(name)
    while len(result) < 30:
        try:
            result.append(FAMILIES[name].draw(rng))
        except NoFit:
            continue
    return tuple(result)


def reads_well(text: str, name: str) -> bool:
    lines = text.splitlines()
    # A maze or a table may stand at either end.
    begins = lines[0][0].isupper() or not lines[0][0].isalpha()
    ends = lines[-1][-1] in ".?:" or len(lines) > 1 or name == "count_words"
    return begins and ends and not any(ODD.search(line) or MANY.search(line) for line in lines)


def test_every_phrasing_is_well_formed():
    texts = {
        (name, phrasing.format_map(draft.words).strip())
        for name, family in FAMILIES.items()
        if family.kind in (TaskKind.VALUE, TaskKind.FUNCTION)
        for draft in drafts(name)
        for phrasing in family.phrasings
    }
    assert [text for name, text in texts if not reads_well(text, name)] == []


def test_expressions_contain_no_commas():
    rng = Random(0)
    parts = {part.text: part for part in (int_map(rng) for _ in range(2000))}
    assert not [text for text in parts if "," in text]
    formulas = {text.strip("`"): part.code for text, part in parts.items() if text.startswith("`")}
    assert formulas
    assert all(text == code for text, code in formulas.items())
