from __future__ import annotations

import datetime
from collections import Counter

import pytest

from agentgym.errors import UsageError
from agentgym.tasks.sql import database_for, generate_database
from agentgym.tasks.sql.database import generate_database as generate
from agentgym.tasks.sql.domains import Role, domain_names, load_domain
from agentgym.tools.database import COLUMN_TYPES

TYPES = {"INTEGER": int, "DOUBLE": float, "VARCHAR": str, "DATE": datetime.date, "BOOLEAN": bool}


@pytest.mark.parametrize("domain", domain_names())
def test_a_seed_names_one_database(domain: str):
    again = generate.__wrapped__(domain, 3)
    assert again == generate_database(domain, 3) == database_for({"domain": domain, "database_seed": 3})
    assert again.hash == generate_database(domain, 3).hash != generate_database(domain, 4).hash


@pytest.mark.parametrize("domain", domain_names())
def test_tables_are_small_typed_and_have_columns_to_ask_about(domain: str):
    declared = load_domain(domain)
    assert 1 <= len(declared.tables) <= 5
    for seed in range(8):
        for table, spec in zip(declared.tables, generate_database(domain, seed).tables, strict=True):
            assert 15 <= len(spec.rows) <= 80
            assert len({column.label for column in table.columns}) == len(table.columns)
            for column, values in zip(table.columns, zip(*spec.rows, strict=True), strict=True):
                assert column.type in COLUMN_TYPES
                assert {type(value) for value in values if value is not None} <= {TYPES[column.type]}
                assert column.nullable or column.role is Role.DATE or None not in values


@pytest.mark.parametrize("domain", domain_names())
def test_keys_and_names_are_unique_and_references_lead_somewhere(domain: str):
    for seed in range(8):
        spec = generate_database(domain, seed)
        for table in load_domain(domain).tables:
            columns = [column.name for column in spec.table(table.name).columns]
            rows = dict(zip(columns, zip(*spec.table(table.name).rows, strict=True), strict=True))
            for column in table.of(Role.KEY, Role.NAME):
                assert len(set(rows[column.name])) == len(rows[column.name])
            for key in spec.table(table.name).foreign_keys:
                target = spec.table(key.target_table)
                position = [column.name for column in target.columns].index(key.target_column)
                assert set(rows[key.column]) - {None} <= {row[position] for row in target.rows}


def test_every_kind_of_nasty_value_occurs():
    cells = [
        cell
        for domain in domain_names()
        for table in generate_database(domain, 0).tables
        for row in table.rows
        for cell in row
    ]
    texts = [cell for cell in cells if isinstance(cell, str)]
    assert any("'" in text for text in texts)
    assert any("東京" in text for text in texts)
    assert any("ë" in text for text in texts)
    assert None in cells
    assert {type(cell) for cell in cells} == {*TYPES.values(), type(None)}


def test_some_parents_have_no_children_and_categories_are_skewed():
    spec = generate_database("shop", 0)
    buyers = {row[1] for row in spec.table("orders").rows}
    assert buyers < {row[0] for row in spec.table("customers").rows}
    counts = Counter(row[4] for row in spec.table("orders").rows).most_common()
    assert counts[0][1] >= 2 * counts[-1][1]


def test_an_unknown_domain_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r"unknown domain 'shopp'; did you mean 'shop'\? Choose from: airline"):
        generate_database("shopp", 0)
