"""Grades an answer, given its result and that of the gold query. Needs only Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from agentgym.envs.sql.grading import answer_matches, match, partial, why_wrong
from agentgym.tools.database.base import QueryLimits, QueryResult

GRADING_LIMITS = QueryLimits(timeout_s=10.0, max_rows=50_000, max_cell_chars=10_000, max_result_bytes=20_000_000)
"""Bounds on gold and submitted queries: results are compared whole, not as a preview."""
_QUERY = re.compile(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(select|with|values|from)\b", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class SQLVerdict:
    """The verdict on an answer."""

    solved: bool
    similarity: float
    """Partial credit for the result; 1 only if it is right."""
    why_wrong: str = ""


def verdict_on_rows(
    result: QueryResult, gold: QueryResult, ordered: bool, matches_up_to_ties: Callable[[], bool]
) -> SQLVerdict:
    """Return the verdict on the result of a submitted query.

    Args:
        result: The result.
        gold: The gold query's result.
        ordered: Whether the question asks for an order of the rows.
        matches_up_to_ties: Returns whether the result is another one that the gold's ORDER BY and LIMIT allow.
    """
    solved = match(result, gold, ordered) or matches_up_to_ties()
    return (
        SQLVerdict(True, 1.0) if solved else SQLVerdict(False, partial(result, gold, ordered), why_wrong(result, gold))
    )


def verdict_on_value(answer: str, gold: QueryResult, ordered: bool) -> SQLVerdict:
    """Return the verdict on a submitted value, or list of values."""
    solved = answer_matches(answer, gold, ordered)
    return SQLVerdict(solved, float(solved), "" if solved else "another value")


def is_query(answer: str, engine: str) -> bool:
    """Whether a submitted answer is a query: it begins with SELECT, WITH or VALUES (in DuckDB also FROM).

    Comments and opening parentheses may come before. Everything else, including quoted text, is a value.
    """
    beginning = _QUERY.match(answer)
    return beginning is not None and (beginning[1].lower() != "from" or engine == "duckdb")
