"""Guarantees of both engines: the same data, described and queried within bounds."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from agentgym.base.errors import UsageError
from agentgym.tools.database import (
    ENGINES,
    Column,
    DatabasePool,
    DatabaseSpec,
    ForeignKey,
    QueryError,
    QueryErrorKind,
    QueryLimits,
    Table,
)
from tests.rows import each_row

DAY = datetime.date(2024, 2, 29)
CUSTOMERS = Table(
    "customers", (Column("id", "INTEGER", "who"), Column("name", "VARCHAR")), ((1, "Zoë"), (2, None)), "id"
)
ORDERS = Table(
    "all orders",
    (
        Column("id", "INTEGER"),
        Column("customer id", "INTEGER"),
        Column("total", "DOUBLE"),
        Column("day", "DATE"),
        Column("order", "BOOLEAN"),
    ),
    ((10, 1, 1.5, DAY, True), (11, 2, None, None, False), (2**40, 1, -0.25, DAY, None)),
    "id",
    (ForeignKey("customer id", "customers", "id"),),
)
SPEC = DatabaseSpec("shop", (CUSTOMERS, ORDERS, Table("empty", (Column("x", "VARCHAR"),), ())))


@pytest.fixture(scope="module")
def pool():
    pool = DatabasePool()
    yield pool
    pool.close()


@pytest.fixture(params=ENGINES)
def database(request, pool):
    with pool.open(SPEC, request.param) as database:
        yield database


def test_describe_returns_columns_keys_count_and_sample(database):
    assert database.tables() == ("customers", "all orders", "empty")
    info = database.describe("all orders", sample_rows=2)
    assert [column.name for column in info.columns] == ["id", "customer id", "total", "day", "order"]
    assert (info.primary_key, info.row_count) == ("id", 3)
    assert info.foreign_keys == (ForeignKey("customer id", "customers", "id"),)
    assert [row[0] for row in info.sample.rows] == [10, 11]
    assert database.describe("empty").sample.columns == ("x",)


def test_an_engine_returns_the_values_of_the_spec(database):
    rows = database.query('SELECT * FROM "all orders" ORDER BY id').rows
    day = DAY.isoformat() if database.engine == "sqlite" else DAY
    assert rows == ((10, 1, 1.5, day, True), (11, 2, None, None, False), (2**40, 1, -0.25, day, None))
    assert database.query("SELECT name FROM customers ORDER BY id").rows == (("Zoë",), (None,))


@each_row(
    "limits, rows, first",
    [
        (QueryLimits(max_rows=2), 2, "abcdefgh"),
        (QueryLimits(max_rows=3), 3, "abcdefgh"),
        (QueryLimits(max_cell_chars=4), 3, "abcd"),
        (QueryLimits(max_result_bytes=17), 2, "abcdefgh"),
    ],
)
def test_rows_cells_and_bytes_are_bounded(database, limits, rows, first):
    result = database.query("SELECT 'abcdefgh' FROM \"all orders\"", limits)
    assert (len(result.rows), result.rows[0][0]) == (rows, first)
    assert result.truncated == (limits != QueryLimits(max_rows=3))


def test_an_unknown_name_is_answered_with_the_existing_ones(database):
    with pytest.raises(QueryError, match="customers, all orders, empty"):
        database.describe("clients")
    with pytest.raises(QueryError, match="name") as caught:
        database.query("SELECT nam FROM customers")
    assert caught.value.kind is QueryErrorKind.SYNTAX
    with pytest.raises(QueryError, match="customers"):
        database.query("SELECT * FROM customer")


def test_equal_specs_share_one_database_and_handles_close_alone(pool):
    again = DatabaseSpec("shop", (CUSTOMERS, ORDERS, Table("empty", (Column("x", "VARCHAR"),), ())))
    for engine in ENGINES:
        first, second = pool.open(SPEC, engine), pool.open(again, engine)
        assert first._shared is second._shared
        first.close()
        first.close()
        assert second.query("SELECT count(*) FROM customers").rows == ((2,),)
        with pytest.raises(UsageError, match="closed"):
            first.query("SELECT 1")
        second.close()


@each_row("engine", ENGINES)
def test_an_invalid_spec_is_a_usage_error(pool, engine):
    twice = DatabaseSpec("twice", (Table("t", (Column("a", "INTEGER"),), ((1,), (1,)), "a"),))
    with pytest.raises(UsageError, match="twice"):
        pool.open(twice, engine)
    with pytest.raises(UsageError, match="BLOB"):
        pool.open(DatabaseSpec("odd", (Table("t", (Column("a", "BLOB"),), ()),)), engine)


@each_row(
    "expression, value, type_name",
    [
        ("40000120.10::DECIMAL(18, 2)", Decimal("40000120.10"), "DECIMAL(18,2)"),
        ("170141183460469231731687303715884105727::HUGEINT", 2**127 - 1, "HUGEINT"),
        ("TIMESTAMP '2024-01-02 03:04:05.5'", datetime.datetime(2024, 1, 2, 3, 4, 5, 500000), "TIMESTAMP"),
        ("TIMESTAMPTZ '2024-01-02 03:04:05+02'", "2024-01-02 01:04:05+00:00", "TIMESTAMP WITH TIME ZONE"),
        ("{'a': DATE '2024-01-02', 'b': 1.5}", '{"a": "2024-01-02", "b": 1.5}', "STRUCT(a DATE, b DECIMAL(2,1))"),
        ("'\\xAB'::BLOB", "ab", "BLOB"),
    ],
)
def test_duckdb_types_become_plain_values(pool, expression, value, type_name):
    with pool.open(SPEC, "duckdb") as database:
        result = database.query(f"SELECT {expression}")
    assert result.rows == ((value,),)
    assert type(result.rows[0][0]) is type(value)
    assert result.types == (type_name,)


@each_row(
    "expression, value",
    [
        ("printf('%05.1f|%-4s|%,d', 3.14159, 'ab', 1234567)", "003.1|ab  |1,234,567"),
        ("trim('xxaxx', 'x')", "a"),
        ("replace('banana', 'an', 'o')", "booa"),
        ("instr('banana', 'nan')", 3),
    ],
)
def test_bounded_sqlite_functions_equal_the_built_in_ones(pool, expression, value):
    with pool.open(SPEC, "sqlite") as database:
        assert database.query(f"SELECT {expression}").rows == ((value,),)
