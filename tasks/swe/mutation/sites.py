"""Finds the possible mutations of a source text. Their order depends on the text alone."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from agentgym.base.syntax import parse
from agentgym.tasks.swe.mutation.model import Mutation
from agentgym.tasks.swe.mutation.table import OPERATORS, Operator
from agentgym.tasks.swe.mutation.view import SourceView


def sites(source: str, operators: Collection[Operator] = OPERATORS) -> list[Mutation]:
    """Return every mutation of the source that parses and means something else, in the order of the text.

    Raises `SyntaxError` if the source is not Python of this interpreter's version.
    """
    view = SourceView(source)
    original: dict[tuple[int, int], str] = {}
    mutations: list[Mutation] = []
    for node in view.nodes():
        for operator in operators:
            for mutation in _at(view, node, operator):
                if _changes_meaning(view, mutation, original):
                    mutations.append(mutation)
    return mutations


def _at(view: SourceView, node: ast.AST, operator: Operator) -> Iterator[Mutation]:
    for edits, note in operator.find(view, node):
        if not edits or any(edit.text == view.source[edit.start : edit.end] for edit in edits):
            continue
        edits = sorted(edits)
        first = view.source.count("\n", 0, edits[0].start) + 1
        last = view.source.count("\n", 0, max(edits[-1].end - 1, edits[-1].start)) + 1
        if view.excluded_lines.isdisjoint(range(first, last + 1)):
            yield Mutation(operator.name, view.qualname(node), first, last, tuple(edits), note)


def _changes_meaning(view: SourceView, mutation: Mutation, original: dict[tuple[int, int], str]) -> bool:
    """Whether the function around the edits still parses and has another tree. Cheaper than the module."""
    start, end = view.unit(mutation.edits[0].start, mutation.edits[-1].end)
    pieces, reached = [], start
    for edit in mutation.edits:
        if edit.start < reached:
            return False
        pieces += (view.source[reached : edit.start], edit.text)
        reached = edit.end
    try:
        after = _tree("".join((*pieces, view.source[reached:end])))
    except (SyntaxError, ValueError):
        return False
    if (start, end) not in original:
        original[start, end] = _tree(view.source[start:end])
    return after != original[start, end]


def _tree(text: str) -> str:
    return ast.dump(parse(f"if 1:\n{text}" if text[:1] in (" ", "\t") else text))
