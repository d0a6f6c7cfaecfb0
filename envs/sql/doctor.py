"""Examines the gold queries of SQL tasks: does the database determine the result, and does the grader know it?

Every doubt comes from running the query again in a way that the question leaves open: with NULLs at the other end, rows
in another order, numbers kept as text compared as numbers, outer joins, DISTINCT, or bounds moved by rounding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from sqlglot import exp

from agentgym.core.answers.cells import canonical
from agentgym.core.messages import ToolCall
from agentgym.core.task import Task
from agentgym.envs.sql.grading import match
from agentgym.envs.sql.ties import Run, cut_ties, match_up_to_ties, parsed
from agentgym.eval.suites.doctor import AnswerCase, Doubt
from agentgym.tasks.sql import ENGINE_KEY
from agentgym.tools.database import Database, QueryError, QueryResult

_MAX_ROWS = 200
"""Answers are varied only for results of at most this many rows."""
_ROUNDING = 1e-9
_INEXACT = re.compile("REAL|DOUB|FLOA", re.IGNORECASE)
_SAMPLE = 1_000
"""Number of values of a column to read."""
_ASKS_ORDER = re.compile(
    r"\b(sort|sorted|order(ed)? by|in (ascending|descending|alphabetical|increasing|decreasing|reverse|chronological)"
    r"|alphabetically|chronologically"
    r"|from (the )?(highest|lowest|oldest|youngest|largest|smallest|most|least)\b.* to )",
    re.IGNORECASE,
)
_SETTLES_PARTNERS = re.compile(
    r"\b(leav\w* out|without|have none|has none|that have|who have|that has|who has|at least|or more|includ\w*|occurs?"
    r"|any)\b",
    re.IGNORECASE,
)
_SETTLES_DUPLICATES = re.compile(
    r"\b(distinct|different|unique|once|duplicates?|each|every|all|respective(ly)?|corresponding)\b", re.IGNORECASE
)
_CLOCK = re.compile(
    r"\b(current_?(date|time|timestamp)|now|today|getdate|localtime|random|uuid)\b|'now'", re.IGNORECASE
)


@dataclass(frozen=True)
class GoldQuery:
    """A gold query with its result."""

    sql: str
    engine: str
    question: str
    ordered: bool
    result: QueryResult
    tree: exp.Query
    run: Run

    def again(self, change: Callable[[exp.Query], exp.Query | None]) -> QueryResult | None:
        """Return the result of a changed query; `None` if nothing changed or it does not run."""
        changed = change(self.tree.copy())
        if changed is None or (sql := changed.sql(dialect=self.engine)) == self.tree.sql(dialect=self.engine):
            return None
        try:
            return self.run(sql)
        except QueryError:
            return None

    def differs(self, other: QueryResult | None) -> bool:
        """Whether a changed query has a result that the grader refuses."""
        if other is None or match(other, self.result, self.ordered).equal:
            return False
        return not match_up_to_ties(other, self.result, self.sql, self.engine, self.ordered, self.run)


def doubts(task: Task, database: Database, run: Run) -> Iterator[Doubt]:
    """Yield the reasons why the database may not determine a task's gold, given that the gold query runs.

    Args:
        task: The task.
        database: Its database.
        run: Runs a query on that database, with the grader's limits.
    """
    engine, sql = task.data[ENGINE_KEY], task.gold["sql"]
    if (tree := parsed(sql, engine)) is None:
        return
    gold = GoldQuery(sql, engine, task.prompt, bool(task.gold["ordered"]), run(sql), tree, run)
    if ties := cut_ties(sql, engine, run):
        yield Doubt("tie at LIMIT", f"rows tie where LIMIT cuts: {ties[0]}")
    elif gold.differs(gold.again(_reversed_tables)):
        yield Doubt("row order", "the result changes with the order in which tables store their rows")
    if any(gold.differs(gold.again(lambda query, first=first: _with_nulls(query, first))) for first in (True, False)):
        yield Doubt("NULL order", "the result depends on whether NULLs sort first or last, which the query leaves open")
    if columns := _texts_as_numbers(gold, database):
        yield Doubt("numbers as text", f"text columns of numbers are compared as text: {', '.join(columns)}")
    if rows := _rows_without_partners(gold):
        yield Doubt(
            "rows without partners", f"an outer join adds {rows} rows; the question does not say whether they count"
        )
    if not gold.ordered and _ASKS_ORDER.search(gold.question):
        yield Doubt("no order", "the question asks for an order of the rows, but the gold has none")
    if _has_duplicates(gold):
        yield Doubt("duplicates", "the result repeats rows; the question does not say whether they count")
    if _CLOCK.search(sql):
        yield Doubt("clock or chance", "the result depends on the current date or on random numbers")
    inexact = _inexact_columns(gold, database)
    moved = (gold.again(lambda query, by=by: _moved(query, by, inexact)) for by in (1 + _ROUNDING, 1 - _ROUNDING))
    if any(map(gold.differs, moved)):
        yield Doubt("rounding", "a computed number equals its bound up to rounding, so that rows come and go")


def answer_cases(task: Task, gold: QueryResult, run: Run) -> Iterator[AnswerCase]:
    """Yield right and wrong answers: queries that return the gold's rows, or other rows, and values as text.

    Args:
        task: The task.
        gold: The result of its gold query.
        run: Runs a query on its database.
    """
    if gold.truncated or not 0 < len(gold.rows) <= _MAX_ROWS or not all(map(_is_plain, _cells(gold.rows))):
        return
    engine, ordered, sql = task.data[ENGINE_KEY], bool(task.gold["ordered"]), task.gold["sql"]

    def case(name: str, answer: str, is_right: bool) -> AnswerCase:
        return AnswerCase(name, (ToolCall("submit", {"answer": answer}),), is_right)

    def allowed(rows: Sequence[tuple[Any, ...]]) -> bool:
        result = replace(gold, rows=tuple(rows))
        return match(result, gold, ordered).equal or match_up_to_ties(result, gold, sql, engine, ordered, run)

    rows = list(gold.rows)
    yield case("the gold query", sql, True)
    yield case("its rows", _values(rows), True)
    yield case("columns in reverse", _values([row[::-1] for row in rows]), True)
    yield case("rounding errors", _values([tuple(map(_rounded, row)) for row in rows]), True)
    if not ordered:
        yield case("rows in reverse", _values(rows[::-1]), True)
    elif not allowed(rows[::-1]):
        yield case("rows in reverse", _values(rows[::-1]), False)
    if len(rows) > 1:
        yield case("a row too few", _values(rows[:-1]), False)
    yield case("a row twice", _values([*rows, rows[-1]]), False)
    yield case("a column too many", _values([(*row, 1) for row in rows]), False)
    for name, change in (("another value", _other), ("NULL for a value", lambda _: None)):
        changed = [*rows[:-1], (*rows[-1][:-1], change(rows[-1][-1]))]
        if not allowed(changed):
            yield case(name, _values(changed), False)
    for name, factor in (("a thousandth more", 1.001), ("a millionth more", 1 + 1e-6)):
        scaled = [tuple(_times(cell, factor) for cell in row) for row in rows]
        if any(type(canonical(cell)) is float for cell in _cells(rows)):
            yield case(name, _values(scaled), False)
    if len(rows) == 1 and len(rows[0]) == 1 and rows[0][0] not in (None, ""):
        text = str(rows[0][0])
        yield case("the value", f"'{text}'" if text[:1].isalpha() else text, True)
        yield case("another value as text", f"'{_other(rows[0][0])}'", False)


def _with_nulls(query: exp.Query, first: bool) -> exp.Query:
    for term in query.find_all(exp.Ordered):
        term.set("nulls_first", first)
    return query


def _reversed_tables(query: exp.Query) -> exp.Query | None:
    """Return the query on tables whose rows come in reverse order."""
    named = {cte.alias.lower() for cte in query.find_all(exp.CTE)}
    for table in list(query.find_all(exp.Table)):
        if table.name.lower() in named or not table.name:
            continue
        alias = table.alias_or_name
        bare = table.copy()
        bare.set("alias", None)
        bare.set("joins", None)
        inner = exp.select("*").from_(bare).order_by("rowid DESC").subquery(alias)
        inner.set("joins", table.args.get("joins"))
        table.replace(inner)
    return query


def _texts_as_numbers(gold: GoldQuery, database: Database) -> list[str]:
    """Return the text columns whose comparison as numbers changes the result."""
    compares = (exp.Ordered, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.Max, exp.Min)
    used = {column.name.lower() for node in gold.tree.find_all(*compares) for column in node.find_all(exp.Column)}
    names, compared = _numeric_texts(gold, database, used) if used else frozenset[str](), set[str]()

    def change(query: exp.Query) -> exp.Query:
        for node in list(query.find_all(*compares)):
            for column in list(node.find_all(exp.Column)):
                if column.name.lower() in names and not isinstance(column.parent, exp.Cast):
                    compared.add(column.name)
                    column.replace(exp.cast(column.copy(), exp.DataType.Type.DOUBLE))
        return query

    other = gold.again(change) if names else None
    if other is None:
        return []
    numbers = [
        replace(result, rows=tuple(tuple(map(_as_number, row)) for row in result.rows))
        for result in (other, gold.result)
    ]
    return [] if match(numbers[0], numbers[1], gold.ordered).equal else sorted(compared)


def _numeric_texts(gold: GoldQuery, database: Database, among: Collection[str]) -> frozenset[str]:
    """Return which of these columns of the gold's tables are texts that are all numbers, in lower case."""
    names: set[str] = set()
    for table, name, _ in _columns(gold, database):
        if name.lower() not in among:
            continue
        quoted = exp.column(name, quoted=True).sql(dialect=gold.engine)
        source = exp.to_table(table).sql(dialect=gold.engine)
        try:
            rows = gold.run(f"SELECT DISTINCT {quoted} FROM {source} WHERE {quoted} IS NOT NULL LIMIT {_SAMPLE}").rows
        except QueryError:
            continue
        texts = [row[0] for row in rows]
        if len(texts) > 1 and all(isinstance(text, str) and type(_as_number(text)) is float for text in texts):
            names.add(name.lower())
    return frozenset(names)


def _columns(gold: GoldQuery, database: Database) -> Iterator[tuple[str, str, str]]:
    """Yield the table, the name and the type of each column of the gold's tables."""
    tables = {table.name.lower() for table in gold.tree.find_all(exp.Table)}
    for table in database.tables():
        if table.lower() in tables:
            yield from ((table, column.name, column.type) for column in database.describe(table, 0).columns)


def _rows_without_partners(gold: GoldQuery) -> int:
    """Return the number of rows that outer joins add to groups or windows, unless the question settles it."""
    is_grouped = any(True for _ in gold.tree.find_all(exp.Group, exp.Window))
    if not is_grouped or _SETTLES_PARTNERS.search(gold.question):
        return 0
    added = 0
    for side in ("LEFT", "RIGHT"):
        other = gold.again(lambda query, side=side: _outer(query, side))
        if other is not None and gold.differs(other):
            added = max(added, sum(row[0] is not None for row in other.rows) - len(gold.result.rows))
    return max(added, 0)


def _outer(query: exp.Query, side: str) -> exp.Query:
    for join in query.find_all(exp.Join):
        if not join.side and join.kind in ("", "INNER") and (join.args.get("on") or join.args.get("using")):
            join.set("side", side)
            join.set("kind", None)
    return query


def _has_duplicates(gold: GoldQuery) -> bool:
    rows = [tuple(map(canonical, row)) for row in gold.result.rows]
    if (
        len(set(rows)) == len(rows)
        or _SETTLES_DUPLICATES.search(gold.question)
        or not isinstance(gold.tree, exp.Select)
    ):
        return False
    return not gold.tree.args.get("group") and not gold.tree.args.get("distinct")


def _inexact_columns(gold: GoldQuery, database: Database) -> frozenset[str]:
    """Return the columns of the gold's tables, in lower case, whose sums depend on rounding."""
    return frozenset(name.lower() for _, name, kind in _columns(gold, database) if _INEXACT.search(kind))


def _moved(query: exp.Query, factor: float, inexact: Collection[str]) -> exp.Query:
    """Return the query with the bounds of numbers computed from inexact columns multiplied by a factor."""
    for node in list(query.find_all(exp.GT, exp.GTE, exp.LT, exp.LTE)):
        columns = {column.name.lower() for column in node.find_all(exp.Column)}
        if columns.intersection(inexact) and any(True for _ in node.find_all(exp.Avg, exp.Sum, exp.Stddev, exp.Div)):
            by = exp.Literal.number(repr(factor))
            node.set("expression", exp.Mul(this=exp.paren(node.expression.copy()), expression=by))
    return query


def _cells(rows: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    return (cell for row in rows for cell in row)


def _is_plain(cell: Any) -> bool:
    return isinstance(canonical(cell), int | float | Decimal | str | None) and not isinstance(cell, bytes)


def _values(rows: Sequence[tuple[Any, ...]]) -> str:
    """Return a query whose result is `rows`."""
    lines = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
    return f"SELECT * FROM (VALUES {lines}) AS answer"


def _literal(cell: Any) -> str:
    value = canonical(cell)
    if value is None:
        return "NULL"
    if isinstance(value, int | float | Decimal):
        return str(value)
    escaped = value.replace("'", "''")
    return f"'{escaped}'"


def _other(cell: Any) -> Any:
    """Return another value of the same type."""
    value = canonical(cell)
    if value is None:
        return 0
    return value + 1 if isinstance(value, int | float | Decimal) else f"{value} x"


def _times(cell: Any, factor: float) -> Any:
    value = canonical(cell)
    return value * factor if type(value) is float else cell


def _rounded(cell: Any) -> Any:
    """Return a fractional number with an error as of adding floats in another order."""
    value = canonical(cell)
    return value * (1 + 1e-13) if type(value) is float else cell


def _as_number(cell: Any) -> Any:
    try:
        return float(cell) if isinstance(cell, str | int | float) else cell
    except ValueError:
        return cell
