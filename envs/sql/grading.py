"""Execution match and partial credit for query results and plain values.

Two results match if one reordering of the predicted columns, the same for all rows, makes the rows equal: as a
multiset (duplicates count), or in sequence where the question asks for an order. Column names do not matter, the
number of columns does. `agentgym.core.answers` says when two cells are equal. Fractional numbers may be rounded, in a
result as in a value: see `written.ROUNDING`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.core.answers.cells import Row, canonical, close, common_rows, fractional, is_fractional, pair_off
from agentgym.core.answers.decisions import OTHER, SAME, UNREADABLE, Decision, DecisionRule
from agentgym.core.answers.texts import fold, plain, without_marks
from agentgym.core.answers.written import FEWEST_DECIMALS, number_decision, text_decision
from agentgym.tools.database.base import QueryResult

NEAR = 0.5
"""Partial credit stays below this unless the results match."""
_MAX_TRIES = 2_000
"""Maximum number of column assignments to try; only results with unrealistically many equal columns need more."""
_MAX_PARTIAL_CELLS = 200_000
"""Larger predictions get no partial credit."""
_MAX_PARTIAL_COLUMNS = 20
_MAX_UNORDERED = 200
"""Longer lists without an order are compared as texts."""
_SEPARATORS = [re.compile(mark) for mark in (r"\n", r"\|", ";", r",(?!\d)", ",")]


@dataclass(frozen=True)
class _Table:
    """A result in canonical form."""

    rows: tuple[Row, ...]
    columns: tuple[Row, ...]

    @classmethod
    def of(cls, result: QueryResult) -> _Table:
        rows = tuple(tuple(map(canonical, row, result.types)) for row in result.rows)
        return cls(rows, tuple(zip(*rows, strict=True)) if rows else ((),) * len(result.columns))


def match(
    predicted: QueryResult, gold: QueryResult, ordered: bool = False, fewest: int | None = FEWEST_DECIMALS
) -> Decision:
    """Return the decision whether `predicted` answers the question as `gold` does.

    Args:
        predicted: Result of the policy's query. A truncated result never matches.
        gold: Result of the gold query.
        ordered: Whether the question asks for an order of the rows.
        fewest: Fewest decimals of a rounded number; `None` forbids rounding.
    """
    if predicted.truncated or gold.truncated:
        return OTHER
    if len(predicted.columns) != len(gold.columns) or len(predicted.rows) != len(gold.rows):
        return OTHER
    if predicted.rows == gold.rows:
        return SAME
    mine, theirs = _Table.of(predicted), _Table.of(gold)
    has_fractions = any(is_fractional(cell) for row in (*mine.rows, *theirs.rows) for cell in row)
    if _match_tables(mine, theirs, ordered, None):
        is_exact = not has_fractions or Counter(mine.rows) == Counter(theirs.rows)
        return SAME if is_exact else Decision(True, DecisionRule.ROUNDING_ERROR)
    if has_fractions and fewest is not None and _match_tables(mine, theirs, ordered, fewest):
        return Decision(True, DecisionRule.ROUNDED)
    return OTHER


def partial(
    predicted: QueryResult, gold: QueryResult, ordered: bool = False, fewest: int | None = FEWEST_DECIMALS
) -> float:
    """Return 1.0 if the results match, else a score below `NEAR` for what they share; arguments as in `match`.

    The score is half the square of the lower of precision and F1 over cells. Cells count in whole rows under one
    assignment of columns, so values in wrong rows are worth nothing. Surplus rows and columns cost precision, because
    returning too much is the cheapest trick. The score is computed over all rows and over distinct rows, and the lower
    one counts, so repeating a frequent row does not pay. Rows that only share NULL do not count.
    """
    if match(predicted, gold, ordered, fewest).equal:
        return 1.0
    cells = len(predicted.rows) * len(predicted.columns)
    if predicted.truncated or not gold.rows or not 0 < cells <= _MAX_PARTIAL_CELLS:
        return 0.0
    if max(len(predicted.columns), len(gold.columns)) > _MAX_PARTIAL_COLUMNS:
        return 0.0
    mine, theirs = _Table.of(predicted), _Table.of(gold)
    assignment = _best_assignment(mine, theirs, fewest)
    if not assignment:
        return 0.0
    share = min(_similarity(mine, theirs, assignment, distinct, fewest) for distinct in (False, True))
    return NEAR * share * share * 0.999


def why_wrong(predicted: QueryResult, gold: QueryResult, fewest: int | None = FEWEST_DECIMALS) -> str:
    """Return the first difference between a wrong result and the gold result, without showing values of either."""
    if predicted.truncated:
        return "too large to compare"
    for what, mine, theirs in (
        ("columns", predicted.columns, gold.columns),
        ("rows", predicted.rows, gold.rows),
    ):
        if len(mine) != len(theirs):
            return f"{what}: {len(mine)} instead of {len(theirs)}"
    return "the right rows in another order" if match(predicted, gold, False, fewest).equal else "other values"


def _match_tables(mine: _Table, theirs: _Table, ordered: bool, fewest: int | None) -> bool:
    """Search for an order of `mine`'s columns that gives `theirs`, column by column."""
    choices = [
        [i for i, column in enumerate(mine.columns) if _same_column(column, target, ordered, fewest)]
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
            if _agree(mine, theirs, assigned, ordered, fewest) and extend():
                return True
            assigned.pop()
        return False

    return extend()


def _same_column(left: Row, right: Row, ordered: bool, fewest: int | None) -> bool:
    if ordered:
        return all(close(cell, gold, fewest) for cell, gold in zip(left, right, strict=True))
    rows_left, rows_right = [(cell,) for cell in left], [(cell,) for cell in right]
    return common_rows(rows_left, rows_right, fractional(rows_left + rows_right, 1), fewest) == len(left)


def _agree(mine: _Table, theirs: _Table, assigned: Sequence[int], ordered: bool, fewest: int | None) -> bool:
    """Whether the chosen columns of `mine`, together, equal the first columns of `theirs`."""
    if ordered or len(assigned) == 1:
        return True
    left = list(zip(*(mine.columns[i] for i in assigned), strict=True))
    right = list(zip(*theirs.columns[: len(assigned)], strict=True))
    return common_rows(left, right, fractional([*left, *right], len(assigned)), fewest) == len(theirs.rows)


def _common(
    mine: _Table, theirs: _Table, assignment: Sequence[tuple[int, int]], distinct: bool, fewest: int | None
) -> int:
    """Count the rows that agree in the assigned (gold, predicted) columns, where at least one cell is not NULL."""
    left = _informative(zip(*(mine.columns[i] for _, i in assignment), strict=True))
    right = _informative(zip(*(theirs.columns[j] for j, _ in assignment), strict=True))
    if distinct:
        left, right = list(dict.fromkeys(left)), list(dict.fromkeys(right))
    return common_rows(left, right, fractional([*left, *right], len(assignment)), fewest)


def _informative(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if any(cell is not None for cell in row)]


def _best_assignment(mine: _Table, theirs: _Table, fewest: int | None) -> list[tuple[int, int]]:
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
        scored = [(width * _common(mine, theirs, [*assignment, pair], False, fewest), pair) for pair in options]
        score, pair = max(scored, key=lambda item: item[0], default=(0, (0, 0)))
        if score <= best:
            return assignment
        best = score
        assignment.append(pair)


def _overlap(mine: _Table, theirs: _Table, j: int, i: int) -> bool:
    left, right = mine.columns[i], theirs.columns[j]
    return not set(left).isdisjoint(right) or any(map(is_fractional, (*left, *right)))


def _similarity(
    mine: _Table, theirs: _Table, assignment: list[tuple[int, int]], distinct: bool, fewest: int | None
) -> float:
    """Return the lower of precision and F1 over cells."""
    shared = _common(mine, theirs, assignment, distinct, fewest) * len(assignment)
    sizes = [len(set(t.rows)) if distinct else len(t.rows) for t in (mine, theirs)]
    mine_cells, their_cells = sizes[0] * len(mine.columns), sizes[1] * len(theirs.columns)
    return min(1.0, shared / mine_cells, 2 * shared / (mine_cells + their_cells))


def answer_decision(
    answer: str, gold: QueryResult, ordered: bool = False, question: str = "", fewest: int | None = FEWEST_DECIMALS
) -> Decision:
    """Return the decision whether a value, or a list of values, written as text, is the single row or column of `gold`.

    A list is separated by line breaks, `|`, `;` or commas (or is a JSON-like `[a, b]`). Case, surrounding quotes and
    spaces do not matter. `agentgym.core.answers.written` says when a text equals a value.

    Args:
        answer: The answer.
        gold: Result of the gold query. No text can state a result of several rows and columns.
        ordered: Whether the question asks for an order of the rows.
        question: The question, whose units a number may have.
        fewest: Fewest decimals of a rounded number; `None` forbids rounding.
    """
    if len(gold.rows) > 1 and len(gold.columns) > 1:
        return UNREADABLE
    if gold.truncated or not gold.rows:
        return OTHER
    in_order = ordered or len(gold.rows) == 1
    expected = [canonical(cell, kind) for row in gold.rows for cell, kind in zip(row, gold.types, strict=True)]
    answer = without_marks(answer)
    if len(expected) == 1:
        return _value_decision(answer, expected[0], question, fewest)

    def decide(text: str, value: Any) -> Decision:
        return _value_decision(text, value, question, fewest)

    lists = [values for values in _lists(answer) if len(values) == len(expected)]
    decisions = [decision for values in lists if (decision := _list_decision(values, expected, in_order, decide)).equal]
    return decisions[0] if decisions else OTHER


def _lists(answer: str) -> list[list[str]]:
    """Read `answer` as a list in every possible way."""
    text = answer.strip()
    if text[:1] in "[(" and text[-1:] in "])":
        text = text[1:-1]
    # A comma between digits may separate thousands.
    return [[part for part in mark.split(text) if part.strip()] for mark in _SEPARATORS if mark.search(text)]


def _list_decision(
    texts: list[str], expected: list[Any], in_order: bool, decide: Callable[[str, Any], Decision]
) -> Decision:
    if in_order:
        return _weakest(list(map(decide, texts, expected)))
    if len(expected) > _MAX_UNORDERED:
        return SAME if Counter(map(_words, texts)) == Counter(_words(str(value)) for value in expected) else OTHER
    decisions = [[decide(text, value) for value in expected] for text in texts]
    if pair_off([[i for i, each in enumerate(row) if each.equal] for row in decisions]) < len(expected):
        return OTHER
    return _weakest([next(each for each in row if each.equal) for row in decisions])


def _weakest(decisions: Sequence[Decision]) -> Decision:
    """Return the first decision against the answer, or the first that is not about the same text or value."""
    wrong = next((decision for decision in decisions if not decision.equal), None)
    return wrong or next((decision for decision in decisions if decision != SAME), SAME)


def _value_decision(text: str, expected: Any, question: str, fewest: int | None) -> Decision:
    words = _words(text)
    if expected is None:
        return SAME if words in ("null", "none") else OTHER
    if isinstance(expected, str):
        return text_decision(text, expected, question, plain)
    if words in ("true", "false"):
        return SAME if expected == (words == "true") else OTHER
    return number_decision(words, expected, question, fewest)


def _words(text: str) -> str:
    return plain(fold(text))
