"""Every phrasing of a generated task is free of artefacts, and those of SQL name their columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
import sqlglot
from sqlglot import exp

from agentgym.procedural import NoFit
from agentgym.tasks.code.families import FAMILIES as CODE
from agentgym.tasks.search.questions import FAMILIES as SEARCH
from agentgym.tasks.search.questions import QuestionScene
from agentgym.tasks.search.world import open_world as open_search_world
from agentgym.tasks.sql.domains import ColumnDecl, domain_names
from agentgym.tasks.sql.questions import FAMILIES as SQL
from agentgym.tasks.sql.questions import SQLDraft
from agentgym.tasks.sql.scene import SQLScene, open_world

pytestmark = pytest.mark.nightly

ODD = re.compile(r"\bthe the\b|\?\?|\.\?|[a-z]  [a-z]")
Draw = Callable[[str, Random], Any]
DRAWS: dict[str, tuple[Any, Draw]] = {
    "code": (CODE, lambda name, rng: CODE[name].draw(rng)),
    "search": (
        SEARCH,
        lambda name, rng: SEARCH[name].draw(QuestionScene(open_search_world("train", rng.randrange(4), 0, 1_000), rng)),
    ),
    "sql": (SQL, lambda name, rng: SQL[name].draw(SQLScene(open_world(rng.choice(domain_names()), 0), rng))),
}


def drafts(draw: Draw, name: str) -> Iterator[Any]:
    rng, remaining = Random(name), 12
    for _ in range(5_000):
        try:
            yield draw(name, rng)
        except NoFit:
            continue
        remaining -= 1
        if not remaining:
            return
    raise AssertionError(f"{name} has too few questions")


def returned(draft: SQLDraft) -> Iterator[ColumnDecl]:
    """Yield the columns that the gold query returns as they are."""
    query = sqlglot.parse_one(draft.sql, dialect="duckdb")
    while isinstance(query, exp.SetOperation):
        query = query.left
    declared = [word for word in draft.words.values() if isinstance(word, ColumnDecl)]
    names = {item.name for item in query.expressions if isinstance(item, exp.Column)}
    return (column for column in declared if column.name in names)


@pytest.mark.parametrize("kind", DRAWS)
def test_phrasings_have_no_artefacts_of_their_template(kind: str):
    families, draw = DRAWS[kind]
    for name, family in families.items():
        for draft in drafts(draw, name):
            for phrasing in family.phrasings:
                text = phrasing.format_map(draft.words)
                values = "|".join(
                    re.escape(str(word)) for word in draft.words.values() if isinstance(word, str) and word
                )
                assert not ODD.search(re.sub(values, "X", text) if values else text), text
                if kind == "sql":
                    missing = [c for c in returned(draft) if c.label not in text and c.plural not in text]
                    assert missing == [], text
