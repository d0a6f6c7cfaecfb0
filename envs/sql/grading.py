"""Execution match and partial credit for query results and plain values.

Two results match if one reordering of the predicted columns, the same for all rows, makes the rows equal: as a
multiset (duplicates count), or in sequence where the question asks for an order. Column names do not matter, the
number of columns does. `cells` says when two cells are equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.envs.sql.cells import Row, canonical, close, common_rows, fractional
from agentgym.tools.database.base import QueryResult

NEAR = 0.5
"""Partial credit stays below this unless the results match."""
_MAX_TRIES = 2_000
"""Maximum number of column assignments to try; only results with unrealistically many equal columns need more."""
_MAX_PARTIAL_CELLS = 200_000
"""Larger predictions get no partial credit."""
_MAX_PARTIAL_COLUMNS = 20


@dataclass(frozen=True)
class _Table:
    """A result in canonical form."""

    rows: tuple[Row, ...]
    columns: tuple[Row, ...]

    @classmethod
    def of(cls, result: QueryResult) -> _Table:
        rows = tuple(tuple(map(canonical, row)) for row in result.rows)
        return cls(rows, tuple(zip(*rows, strict=True)) if rows else ((),) * len(result.columns))


def match(predicted: QueryResult, gold: QueryResult, ordered: bool = False) -> bool:
    """Whether `predicted` answers the question as `gold` does.

    Args:
        predicted: Result of the policy's query. A truncated result never matches.
        gold: Result of the gold query.
        ordered: Whether the question asks for an order of the rows.
    """
    if predicted.truncated or gold.truncated:
        return False
    if len(predicted.columns) != len(gold.columns) or len(predicted.rows) != len(gold.rows):
        return False
    if predicted.rows == gold.rows:
        return True
    return _match_tables(_Table.of(predicted), _Table.of(gold), ordered)


def partial(predicted: QueryResult, gold: QueryResult, ordered: bool = False) -> float:
    """Return 1.0 if the results match, else a score below `NEAR` for what they share.

    The score is half the square of the lower of precision and F1 over cells. Cells count in whole rows under one
    assignment of columns, so values in wrong rows are worth nothing. Surplus rows and columns cost precision, because
    returning too much is the cheapest trick. The score is computed over all rows and over distinct rows, and the lower
    one counts, so repeating a frequent row does not pay. Rows that only share NULL do not count.
    """
    if match(predicted, gold, ordered):
        return 1.0
    cells = len(predicted.rows) * len(predicted.columns)
    if predicted.truncated or not gold.rows or not 0 < cells <= _MAX_PARTIAL_CELLS:
        return 0.0
    if max(len(predicted.columns), len(gold.columns)) > _MAX_PARTIAL_COLUMNS:
        return 0.0
    mine, theirs = _Table.of(predicted), _Table.of(gold)
    assignment = _best_assignment(mine, theirs)
    if not assignment:
        return 0.0
    share = min(_similarity(mine, theirs, assignment, distinct) for distinct in (False, True))
    return NEAR * share * share * 0.999


def why_wrong(predicted: QueryResult, gold: QueryResult) -> str:
    """Return the first difference between a wrong result and the gold result, without showing values of either."""
    if predicted.truncated:
        return "too large to compare"
    for what, mine, theirs in (
        ("columns", predicted.columns, gold.columns),
        ("rows", predicted.rows, gold.rows),
    ):
        if len(mine) != len(theirs):
            return f"{what}: {len(mine)} instead of {len(theirs)}"
    return "the right rows in another order" if match(predicted, gold) else "other values"


def _match_tables(mine: _Table, theirs: _Table, ordered: bool) -> bool:
    """Search for an order of `mine`'s columns that gives `theirs`, column by column."""
    choices = [
        [i for i, column in enumerate(mine.columns) if _same_column(column, target, ordered)]
        for target in theirs.columns
    ]
    tries = 0
    assigned: list[int] = []

    def extend() -> bool:
        nonlocal tries
        if len(assigned) == len(choices):
            return True
        tried_columns: set[Row] = set()
        for i in choices[len(assigned)]:
            if i in assigned or mine.columns[i] in tried_columns or tries >= _MAX_TRIES:
                continue
            tried_columns.add(mine.columns[i])
            tries += 1
            assigned.append(i)
            if _agree(mine, theirs, assigned, ordered) and extend():
                return True
            assigned.pop()
        return False

    return extend()


def _same_column(left: Row, right: Row, ordered: bool) -> bool:
    if ordered:
        return all(map(close, left, right))
    rows_left, rows_right = [(cell,) for cell in left], [(cell,) for cell in right]
    return common_rows(rows_left, rows_right, fractional(rows_left + rows_right, 1)) == len(left)


def _agree(mine: _Table, theirs: _Table, assigned: Sequence[int], ordered: bool) -> bool:
    """Whether the chosen columns of `mine`, together, equal the first columns of `theirs`."""
    if ordered or len(assigned) == 1:
        return True
    left = list(zip(*(mine.columns[i] for i in assigned), strict=True))
    right = list(zip(*theirs.columns[: len(assigned)], strict=True))
    return common_rows(left, right, fractional([*left, *right], len(assigned))) == len(theirs.rows)


def _common(mine: _Table, theirs: _Table, assignment: Sequence[tuple[int, int]], distinct: bool) -> int:
    """Count the rows that agree in the assigned (gold, predicted) columns, where at least one cell is not NULL."""
    left = _informative(zip(*(mine.columns[i] for _, i in assignment), strict=True))
    right = _informative(zip(*(theirs.columns[j] for j, _ in assignment), strict=True))
    if distinct:
        left, right = list(dict.fromkeys(left)), list(dict.fromkeys(right))
    return common_rows(left, right, fractional([*left, *right], len(assignment)))


def _informative(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if any(cell is not None for cell in row)]


def _best_assignment(mine: _Table, theirs: _Table) -> list[tuple[int, int]]:
    """Return (gold, predicted) pairs of columns that agree in many cells, chosen greedily."""
    pairs = [
        (j, i) for j in range(len(theirs.columns)) for i in range(len(mine.columns)) if _overlap(mine, theirs, j, i)
    ]
    assignment: list[tuple[int, int]] = []
    best = 0
    while True:
        taken_gold, taken_mine = {j for j, _ in assignment}, {i for _, i in assignment}
        options = [pair for pair in pairs if pair[0] not in taken_gold and pair[1] not in taken_mine]
        width = len(assignment) + 1
        scored = [(width * _common(mine, theirs, [*assignment, pair], distinct=False), pair) for pair in options]
        score, pair = max(scored, key=lambda item: item[0], default=(0, (0, 0)))
        if score <= best:
            return assignment
        best = score
        assignment.append(pair)


def _overlap(mine: _Table, theirs: _Table, j: int, i: int) -> bool:
    left, right = mine.columns[i], theirs.columns[j]
    return not set(left).isdisjoint(right) or any(type(cell) is float for cell in (*left, *right))


def _similarity(mine: _Table, theirs: _Table, assignment: list[tuple[int, int]], distinct: bool) -> float:
    """Return the lower of precision and F1 over cells."""
    shared = _common(mine, theirs, assignment, distinct) * len(assignment)
    sizes = [len(set(t.rows)) if distinct else len(t.rows) for t in (mine, theirs)]
    mine_cells, their_cells = sizes[0] * len(mine.columns), sizes[1] * len(theirs.columns)
    return min(1.0, shared / mine_cells, 2 * shared / (mine_cells + their_cells))


def answer_matches(answer: str, gold: QueryResult, ordered: bool = False) -> bool:
    """Whether a value, or a list of values, written as text, is the single row or column of `gold`.

    A list is separated by line breaks, `|`, `;` or commas (or is a JSON-like `[a, b]`). Case, surrounding quotes and
    spaces do not matter. A number may be rounded, to two decimals or more.
    """
    if gold.truncated or not gold.rows or (len(gold.rows) > 1 and len(gold.columns) > 1):
        return False
    in_order = ordered or len(gold.rows) == 1
    expected = [canonical(cell) for row in gold.rows for cell in row]
    if len(expected) == 1:
        return _value_equals(answer, expected[0])
    return any(_list_equals(values, expected, in_order) for values in _lists(answer) if len(values) == len(expected))


def _lists(answer: str) -> list[list[str]]:
    """Read `answer` as a list in every possible way."""
    text = answer.strip()
    if text[:1] in "[(" and text[-1:] in "])":
        text = text[1:-1]
    return [[part for part in text.split(mark) if part.strip()] for mark in ("\n", "|", ";", ",") if mark in text]


def _list_equals(texts: list[str], expected: list[Any], in_order: bool) -> bool:
    if in_order:
        return all(map(_value_equals, texts, expected))
    if len(expected) > 200:
        return Counter(map(_plain, texts)) == Counter(_plain(str(value)) for value in expected)
    rest = list(expected)
    # The most precise numbers first: a rounded one could otherwise claim the value of a more precise one.
    for text in sorted(texts, key=lambda text: -len(text.partition(".")[2])):
        index = next((i for i, value in enumerate(rest) if _value_equals(text, value)), None)
        if index is None:
            return False
        del rest[index]
    return True


def _value_equals(text: str, expected: Any) -> bool:
    plain = _plain(text)
    if expected is None:
        return plain in ("null", "none")
    if not isinstance(expected, int | float):
        return plain == _plain(expected)
    if plain in ("true", "false"):
        return expected == (plain == "true")
    try:
        number = float(plain.replace(",", "") if "." in plain or plain.count(",") == 1 else plain)
    except ValueError:
        return False
    if close(canonical(number), expected):
        return True
    decimals = len(plain.partition(".")[2]) if "e" not in plain else 0
    return decimals >= 2 and number != 0 and abs(number - expected) <= 0.5000001 * 10.0**-decimals


def _plain(text: str) -> str:
    """Return text without case, surrounding quotes, spaces and final full stop."""
    plain = " ".join(text.split())
    plain = plain[:-1].rstrip() if plain.endswith(".") else plain
    while len(plain) >= 2 and plain[0] == plain[-1] and plain[0] in "\"'`":
        plain = plain[1:-1].strip()
    return plain.casefold()
