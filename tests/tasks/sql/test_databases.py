"""Generated databases: one per domain and seed, small, typed, with valid references."""

from __future__ import annotations

import datetime
import re
from itertools import product

from agentgym.tasks.sql import database_for, generate_database
from agentgym.tasks.sql.database import generate_database as generate
from agentgym.tasks.sql.domains import Role, domain_names, load_domain
from agentgym.tools.database import COLUMN_TYPES
from tests.refusals import sampled

TYPES = {"INTEGER": int, "DOUBLE": float, "VARCHAR": str, "DATE": datetime.date, "BOOLEAN": bool}


def test_a_domain_and_seed_identify_a_database():
    for domain in domain_names():
        again = generate.__wrapped__(domain, 3)
        assert again == generate_database(domain, 3) == database_for({"domain": domain, "database_seed": 3})
        assert again.hash == generate_database(domain, 3).hash != generate_database(domain, 4).hash


def test_patterns_draw_digits_and_letters_and_keep_all_else():
    pattern = re.compile(r"[A-Z]+\d+[A-Z]@example\.(com|org)")
    emails = [
        row[position]
        for name, seed in product(domain_names(), range(3))
        for table in generate_database(name, seed).tables
        for position, column in enumerate(table.columns)
        if column.name == "email"
        for row in table.rows
    ]
    assert len(emails) > 50
    assert [email for email in emails if email is not None and not pattern.fullmatch(str(email))] == []


@sampled(1, 8)
def test_tables_are_small_and_typed_with_valid_references(count: int):
    for name, seed in product(domain_names(), range(count)):
        spec, declared = generate_database(name, seed), load_domain(name)
        assert 1 <= len(declared.tables) <= 5
        for declaration, table in zip(declared.tables, spec.tables, strict=True):
            assert 15 <= len(table.rows) <= 80
            assert len({column.label for column in declaration.columns}) == len(declaration.columns)
            cells = dict(zip((column.name for column in table.columns), zip(*table.rows, strict=True), strict=True))
            for column in declaration.columns:
                values = cells[column.name]
                assert column.type in COLUMN_TYPES
                assert {type(value) for value in values if value is not None} <= {TYPES[column.type]}
                assert column.nullable or column.role is Role.DATE or None not in values
            for column in declaration.of(Role.KEY, Role.NAME):
                assert len(set(cells[column.name])) == len(table.rows)
            for key in table.foreign_keys:
                target = spec.table(key.target_table)
                position = [column.name for column in target.columns].index(key.target_column)
                assert set(cells[key.column]) - {None} <= {row[position] for row in target.rows}
