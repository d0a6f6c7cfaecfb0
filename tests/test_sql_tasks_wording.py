"""Every question says what its gold answers, in every phrasing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import get_args

import pytest
import sqlglot
from sqlglot import exp

from agentgym.envs.sql import SQLEnv
from agentgym.errors import UsageError
from agentgym.messages import text_of
from agentgym.procedural import NoFit, Wording
from agentgym.registry import make
from agentgym.task import iterate
from agentgym.tasks.sql import SQLTasks
from agentgym.tasks.sql.domains import ColumnDecl, Link, TableDecl, domain_names, load_domain
from agentgym.tasks.sql.questions import FAMILIES, Draft
from agentgym.tasks.sql.scene import HIGH_LOW, Scene
from agentgym.tasks.sql.world import open_world

ODD = re.compile(r"  | [,.?]|[{}]|\b[Aa] [aeiou]|\b[Aa]n [^aeiou]|\b(?:None|True|False)\b|\bthe the\b|[a-z]\. [a-z]")
ORDER = re.compile(r"\bsorted\b|\bSort\b|\bfirst\b|\border\b")


@cache
def drafts(name: str) -> tuple[Draft, ...]:
    """Draw questions of a family about several domains."""
    found: list[Draft] = []
    rng = Random(name)
    while len(found) < 25:
        try:
            found.append(FAMILIES[name].draw(Scene(open_world(rng.choice(domain_names()), 0), rng)))
        except NoFit:
            continue
    return tuple(found)


def texts(name: str) -> Iterator[tuple[Draft, str]]:
    """Yield every draft in every phrasing."""
    family = FAMILIES[name]
    for draft in drafts(name):
        for phrasing in (*family.phrasings, *family.plain):
            yield draft, phrasing.format_map(draft.words)


def asked_for(draft: Draft) -> Iterator[ColumnDecl]:
    """Yield the columns that the gold returns as they are."""
    query = sqlglot.parse_one(draft.sql, dialect="duckdb")
    while isinstance(query, exp.SetOperation):
        query = query.left
    declared = [word for word in draft.words.values() if isinstance(word, ColumnDecl)]
    for item in query.expressions:
        if isinstance(item, exp.Column):
            yield from (column for column in declared if column.name == item.name)


def says(text: str, column: ColumnDecl) -> bool:
    return column.label in text or column.plural in text


@pytest.mark.parametrize("name", FAMILIES)
def test_every_phrasing_is_used(name: str):
    family, draft = FAMILIES[name], drafts(name)[0]
    for wording in get_args(Wording):
        phrasings = family.worded(wording)
        assert len(set(phrasings)) >= 3
        used = {family.word(draft, Random(seed), wording) for seed in range(100)}
        assert used == {phrasing.format_map(draft.words) for phrasing in phrasings}


@pytest.mark.parametrize("name", FAMILIES)
def test_no_phrasing_shows_how_it_was_put_together(name: str):
    for draft, text in texts(name):
        values = "|".join(re.escape(str(word)) for word in draft.words.values() if isinstance(word, str))
        assert not ODD.search(re.sub(values, "X", text) if values else text), text
        assert text[0].isupper()
        assert text[-1] in ".?"


@pytest.mark.parametrize("name", FAMILIES)
def test_every_phrasing_names_what_to_return_of_what_and_in_which_order(name: str):
    for draft, text in texts(name):
        assert all(says(text, column) for column in asked_for(draft)), text
        for word in draft.words.values():
            if isinstance(word, TableDecl):
                label = [link.label for link in draft.words.values() if isinstance(link, Link) and link.parent == word]
                assert any(noun in text for noun in (word.one, word.many, *label)), text
        if draft.ordered:
            assert ORDER.search(text), text


@pytest.mark.parametrize("name", FAMILIES)
def test_what_is_asked_of_many_is_returned_in_the_plural(name: str):
    for draft, text in texts(name):
        for table in (word for word in draft.words.values() if isinstance(word, TableDecl)):
            if re.match(rf"Which (?:other |\d+ )?{re.escape(table.many)} ", text):
                assert "Return the " not in text, text


def test_the_wording_changes_nothing_but_the_text():
    natural, plain = SQLTasks(engine="mixed"), SQLTasks(engine="mixed", wording="plain")
    for split in natural.splits:
        for one, other in zip(iterate(natural, split, 200), iterate(plain, split, 200), strict=True):
            assert (one.id, one.data, one.gold, one.tags) == (other.id, other.data, other.gold, other.tags)
    assert any(SQLTasks(difficulty=1).get("train", i).prompt != plain.get("train", i).prompt for i in range(20))


def test_a_column_has_its_own_words_for_its_ends():
    world = open_world("airline", 0)
    delay = next(c for t in world.domain.tables for c in t.columns if c.name == "delay")
    runways = next(c for t in world.domain.tables for c in t.columns if c.name == "runways")
    assert [(end.of(delay).word, end.of(delay).other) for end in HIGH_LOW] == [
        ("longest", "shortest"),
        ("shortest", "longest"),
    ]
    assert [end.of(runways) for end in HIGH_LOW] == list(HIGH_LOW)


@pytest.mark.parametrize(("engine", "named"), [("duckdb", "DuckDB"), ("sqlite", "SQLite")])
def test_the_opening_names_the_engine(engine: str, named: str):
    for wording in get_args(Wording):
        env = make("sql", engine=engine, wording=wording)
        observation, _ = env.reset(seed=1)
        assert text_of(observation[-1]).startswith(env.task.prompt)
        assert named in text_of(observation[-1])
        env.close()


def test_the_example_call_is_no_questions_gold():
    assert SQLEnv.example_call is not None
    table = SQLEnv.example_call.arguments["sql"].split()[-1]
    assert not any(table == each.name for name in domain_names() for each in load_domain(name).tables)


def test_an_unknown_wording_is_refused():
    with pytest.raises(UsageError, match="wording must be one of natural, plain, not 'poetic'"):
        make("sql", wording="poetic")
