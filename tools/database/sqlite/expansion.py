"""Bounds common table expressions in SQLite, which copies one for each reference to it.

Copies of copies grow exponentially while a statement is prepared, where no limit or interrupt can stop it.
"""

from __future__ import annotations

import re

from agentgym.tools.database.base import QueryError, QueryErrorKind

MAX_COPIES = 20_000
"""Maximum size of an expanded statement (planning it takes about 0.1 s)."""
MAX_EXPRESSIONS = 100
"""Maximum number of common table expressions in a statement."""

_TOKEN = re.compile(r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\[[^\]]*\]|\w+|\S""", re.DOTALL)
_Span = tuple[int, int]


def check_expansion(sql: str) -> None:
    """Raise `QueryError` if the common table expressions of `sql` expand too far."""
    if "with" not in sql.lower():
        return
    tokens = [token.strip('"`[]').lower() for token in _TOKEN.findall(sql) if not token.startswith(("--", "/*", "'"))]
    bodies = _bodies(tokens)
    if sum(map(len, bodies.values())) > MAX_EXPRESSIONS:
        raise _too_complex()
    sizes: dict[str, int] = {}

    def size(span: _Span) -> int:
        total = 1
        for index in range(*span):
            name = tokens[index]
            if name in bodies and tokens[index + 1 : index + 2] != ["."]:
                if name not in sizes:
                    sizes[name] = 1  # a recursive reference is not a copy
                    sizes[name] = max(map(size, bodies[name]))
                total += sizes[name]
            if total > MAX_COPIES:
                raise _too_complex()
        return total

    size((0, len(tokens)))


def _too_complex() -> QueryError:
    return QueryError(
        "Too many nested references to common table expressions; write a simpler statement.", QueryErrorKind.TOO_LARGE
    )


def _bodies(tokens: list[str]) -> dict[str, list[_Span]]:
    """Return the spans of the bodies after `AS (` or `(columns) AS (`, by name."""
    partner = _partners(tokens)
    bodies: dict[str, list[_Span]] = {}
    for index, token in enumerate(tokens):
        if token != "as":
            continue
        start = index + 1
        while tokens[start : start + 1] in (["not"], ["materialized"]):
            start += 1
        if tokens[start : start + 1] != ["("]:
            continue
        name = index - 1
        if name >= 0 and tokens[name] == ")":
            name = partner.get(name, 0) - 1
        if name >= 0:
            bodies.setdefault(tokens[name], []).append((start, partner.get(start, len(tokens))))
    return bodies


def _partners(tokens: list[str]) -> dict[int, int]:
    """Return the position of each parenthesis's partner."""
    partner: dict[int, int] = {}
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token == "(":
            opened.append(index)
        elif token == ")" and opened:
            start = opened.pop()
            partner[start], partner[index] = index, start
    return partner
