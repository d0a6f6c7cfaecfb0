"""Every phrasing of an SQL question states what its gold answers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import get_args

import pytest
import sqlglot
from sqlglot import exp

from agentgym.procedural import NoFit, Wording
from agentgym.tasks.sql.domains import ColumnDecl, Link, TableDecl, domain_names
from agentgym.tasks.sql.questions import FAMILIES, SQLDraft
from agentgym.tasks.sql.scene import HIGH_LOW, SQLScene
from agentgym.tasks.sql.world import open_world

pytestmark = pytest.mark.nightly

ODD = re.compile(r"  | [,.?]|[{}]|\b[Aa] [aeiou]|\b[Aa]n [^aeiou]|\b(?:None|True|False)\b|\bthe the\b|[a-z]\. [a-z]")
ORDER = re.compile(r"\bsorted\b|\bSort\b|\bfirst\b|\border\b")


@cache
def drafts(name: str) -> tuple[SQLDraft, ...]:
    """Draw questions of a family about several domains."""
    questions: list[SQLDraft] = []
    rng = Random(name)
    while len(questions) < 25:
        try:
            questions.append(FAMILIES[name].draw(SQLScene(open_world(rng.choice(domain_names()), 0), rng)))
        except NoFit:
            continue
    return tuple(questions)


def every_text() -> Iterator[tuple[SQLDraft, str]]:
    """Yield every draft of every family in every phrasing."""
    for name, family in FAMILIES.items():
        for draft in drafts(name):
            for phrasing in (*family.phrasings, *family.plain):
                yield draft, phrasing.format_map(draft.words)


def returned(draft: SQLDraft) -> Iterator[ColumnDecl]:
    """Yield the columns that the gold returns as they are."""
    query = sqlglot.parse_one(draft.sql, dialect="duckdb")
    while isinstance(query, exp.SetOperation):
        query = query.left
    declared = [word for word in draft.words.values() if isinstance(word, ColumnDecl)]
    for item in query.expressions:
        if isinstance(item, exp.Column):
            yield from (column for column in declared if column.name == item.name)


def mentions(text: str, column: ColumnDecl) -> bool:
    return column.label in text or column.plural in text


def test_every_phrasing_is_used():
    for name, family in FAMILIES.items():
        draft = drafts(name)[0]
        for wording in get_args(Wording):
            phrasings = family.worded(wording)
            assert len(set(phrasings)) >= 3
            used = {family.word(draft, Random(seed), wording) for seed in range(100)}
            assert used == {phrasing.format_map(draft.words) for phrasing in phrasings}, name


def test_phrasings_have_no_artefacts_of_their_template():
    failing = []
    for draft, text in every_text():
        values = "|".join(re.escape(str(word)) for word in draft.words.values() if isinstance(word, str))
        is_odd = ODD.search(re.sub(values, "X", text) if values else text)
        if is_odd or not text[0].isupper() or text[-1] not in ".?":
            failing.append(text)
    assert failing == []


def names_its_tables(draft: SQLDraft, text: str) -> bool:
    links = [word for word in draft.words.values() if isinstance(word, Link)]
    return all(
        any(noun in text for noun in (table.one, table.many, *(link.label for link in links if link.parent == table)))
        for table in draft.words.values()
        if isinstance(table, TableDecl)
    )


def test_every_phrasing_names_its_columns_tables_and_order():
    failing = [
        text
        for draft, text in every_text()
        if not all(mentions(text, column) for column in returned(draft))
        or not names_its_tables(draft, text)
        or (draft.ordered and not ORDER.search(text))
    ]
    assert failing == []


def test_questions_about_several_rows_use_the_plural():
    failing = [
        text
        for draft, text in every_text()
        for table in (word for word in draft.words.values() if isinstance(word, TableDecl))
        if re.match(rf"Which (?:other |\d+ )?{re.escape(table.many)} ", text) and "Return the " in text
    ]
    assert failing == []


def test_a_column_may_have_its_own_superlatives():
    world = open_world("airline", 0)
    columns = {column.name: column for table in world.domain.tables for column in table.columns}
    ends = [(end.of(columns["delay"]).word, end.of(columns["delay"]).other) for end in HIGH_LOW]
    assert ends == [("longest", "shortest"), ("shortest", "longest")]
    assert [end.of(columns["runways"]) for end in HIGH_LOW] == list(HIGH_LOW)
