"""Grades an answer, given its result and that of the gold query. Needs only Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from agentgym.core.answers.decisions import Decision, DecisionRule
from agentgym.core.answers.texts import fenced, without_marks
from agentgym.core.answers.written import fewest_decimals
from agentgym.envs.sql.grading import answer_decision, match, partial, why_wrong
from agentgym.tools.database.base import QueryLimits, QueryResult

GRADING_LIMITS = QueryLimits(timeout_s=10.0, max_rows=50_000, max_cell_chars=10_000, max_result_bytes=20_000_000)
"""Bounds on gold and submitted queries: results are compared whole, not as a preview."""
_QUERY = re.compile(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(select|with|values|from)\b", re.IGNORECASE | re.DOTALL)
_LABEL = re.compile(
    r"^\s*(?:(?:the |my )?(?:final )?(?:sql|query|answer)(?: query)?(?: is)?\s*:|sql\s*\n)\s*", re.IGNORECASE
)
_SELECT, _FROM = re.compile(r"\bselect\b", re.IGNORECASE), re.compile(r"\bfrom\b", re.IGNORECASE)
MAX_VALUE_CHARS = 20_000
TOO_LONG = f"The value has more than {MAX_VALUE_CHARS} characters. Submit a query."
TWO_PARTS = "The answer has a query and other text in it. Submit the query alone, or put quotes around a value."
NOT_A_VALUE = "No value of this form can answer the question. Submit a query, or the value alone, such as 42 or Oslo."


@dataclass(frozen=True)
class SQLVerdict:
    """The verdict on an answer."""

    solved: bool
    similarity: float
    """Partial credit for the result; 1 only if it is right."""
    rule: DecisionRule
    """The rule that decided."""
    why_wrong: str = ""
    refused: str = ""
    """Why the form of the answer is wrong, as text for the model, which may then answer again."""


def verdict_on_rows(
    result: QueryResult,
    gold: QueryResult,
    ordered: bool,
    question: str,
    matches_up_to_ties: Callable[[int], bool],
) -> SQLVerdict:
    """Return the verdict on the result of a submitted query.

    Args:
        result: The result.
        gold: The gold query's result.
        ordered: Whether the question asks for an order of the rows.
        question: The question, which may ask for a precision.
        matches_up_to_ties: Returns whether the result is another one that the gold's ORDER BY and LIMIT allow, given
            the fewest decimals of a rounded number.
    """
    fewest = fewest_decimals(question)
    decision = match(result, gold, ordered, fewest)
    if not decision.equal and matches_up_to_ties(fewest):
        decision = Decision(True, DecisionRule.TIES)
    if decision.equal:
        return SQLVerdict(True, 1.0, decision.rule)
    return SQLVerdict(False, partial(result, gold, ordered, fewest), decision.rule, why_wrong(result, gold, fewest))


def verdict_on_value(answer: str, gold: QueryResult, ordered: bool, question: str) -> SQLVerdict:
    """Return the verdict on a submitted value, or list of values. It is `refused` if no answer has its form."""
    if len(answer) > MAX_VALUE_CHARS:
        return _refused(TOO_LONG)
    fewest = fewest_decimals(question)
    decision = answer_decision(answer, gold, ordered, question, fewest)
    if not decision.equal and _LABEL.match(answer):
        decision = answer_decision(_LABEL.sub("", answer, count=1), gold, ordered, question, fewest)
    if decision.equal:
        return SQLVerdict(True, 1.0, decision.rule)
    select = _SELECT.search(answer)
    if select is not None and _FROM.search(answer, select.end()) and answer.strip()[0] not in "\"'":
        return _refused(TWO_PARTS)
    if decision.rule is DecisionRule.UNREADABLE:
        return _refused(NOT_A_VALUE)
    return SQLVerdict(False, 0.0, decision.rule, "another value")


def _refused(problem: str) -> SQLVerdict:
    return SQLVerdict(False, 0.0, DecisionRule.UNREADABLE, refused=problem)


def query_in(answer: str, engine: str) -> str | None:
    """Return the query in a submitted answer, or `None` if the answer is a value.

    A query begins with SELECT, WITH or VALUES (in DuckDB also FROM); comments and opening parentheses may come before.
    It may stand in a code fence, with or without text around that, or after a label such as `sql:`. Everything else,
    including text in quotes, is a value.
    """
    whole = _as_query(answer, engine)
    inside = {query for text in fenced(answer) if (query := _as_query(text, engine)) is not None}
    return whole if whole is not None or len(inside) != 1 else inside.pop()


def _as_query(text: str, engine: str) -> str | None:
    """Return a text without the marks and the label around it if it is a query."""
    bare = without_marks(_LABEL.sub("", without_marks(text), count=1))
    beginning = _QUERY.match(bare)
    return bare if beginning is not None and (beginning[1].lower() != "from" or engine == "duckdb") else None
