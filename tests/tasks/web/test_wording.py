"""Every web task reads like a request in every phrasing."""

from __future__ import annotations

import re
from random import Random

import pytest

from agentgym.procedural import NoFit
from agentgym.tasks.web import WebTasks
from agentgym.tasks.web.family import WebDraft, WebScene, ended_once
from agentgym.tasks.web.sites.episode import new_database
from agentgym.tasks.web.sites.site import find_site

pytestmark = pytest.mark.nightly

FAMILIES = WebTasks.known()
ODD = re.compile(r"  | [,.?!;:](?!\w)|[{}]|\b[Aa] [aeio]|\bNone\b|\bthe the\b|\.\.|\?\?|,,")
SINGULAR = re.compile(r"\.”\.(?!\S)|\b1 (?:replies|stars|days|times|minutes|seats)\b")


def drafts(name: str) -> list[WebDraft]:
    tasks: list[WebDraft] = []
    rng, family = Random(name), FAMILIES[name]
    for seed in range(60):
        database = new_database(find_site(family.site), seed * 10, family.options)
        try:
            tasks.append(family.draw(WebScene(database, rng)))
        except NoFit:
            continue
        finally:
            database.close()
        if len(tasks) == 3:
            break
    assert tasks
    return tasks


def test_every_phrasing_is_used_and_has_no_artefacts_of_its_template():
    for name, family in FAMILIES.items():
        assert len(set(family.phrasings)) >= 3
        for draft in drafts(name):
            texts = {ended_once(phrasing.format_map(draft.words)) for phrasing in family.phrasings}
            assert {family.word(draft, Random(seed)) for seed in range(80)} == texts
            # Quoted texts may look like anything.
            odd = [text for text in texts if ODD.search(re.sub(r"“[^”]*”", "“X”", text)) or SINGULAR.search(text)]
            assert odd == [], name


def test_a_quoted_sentence_ends_the_enclosing_one():
    assert ended_once("The note is “Please be on time.”. Invite nobody.") == (
        "The note is “Please be on time.” Invite nobody."
    )
    assert ended_once("Set it to “paid”.") == "Set it to “paid”."
    assert ended_once("Subscribe to “Any news?”.") == "Subscribe to “Any news?”."
    assert ended_once("The text is “wait”.”, see v1.0.") == "The text is “wait”.”, see v1.0."
