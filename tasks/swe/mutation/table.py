"""The table of operators: what each does, its family, and how hard its bugs are to find."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agentgym.choices import named
from agentgym.tasks.swe.mutation import calls, expressions, statements
from agentgym.tasks.swe.mutation.model import Edit
from agentgym.tasks.swe.mutation.view import SourceView


@dataclass(frozen=True)
class Operator:
    """One kind of bug."""

    name: str
    family: str
    """Bugs of one family in one function count as the same task."""
    weight: float
    """From 1 (obvious at a glance) to 4 (code has to be written)."""
    find: Callable[[SourceView, ast.AST], Iterator[tuple[list[Edit], str]]]
    """Yields the edits and a note for each way of making the bug at a node."""


def _operators() -> Iterator[Operator]:
    rows = (
        ("comparison", 1.5, expressions.comparison_boundary),
        ("comparison", 1.0, expressions.comparison_opposite),
        ("comparison", 1.0, expressions.none_check_inverted),
        ("arithmetic", 1.5, expressions.arithmetic_operator),
        ("arithmetic", 1.5, expressions.augmented_assignment),
        ("logic", 1.5, expressions.and_or_swapped),
        ("logic", 2.0, expressions.condition_part_dropped),
        ("logic", 1.0, expressions.not_removed),
        ("logic", 1.0, expressions.condition_negated),
        ("constant", 1.5, expressions.constant_off_by_one),
        ("constant", 1.5, expressions.flag_flipped),
        ("constant", 1.5, expressions.default_value),
        ("constant", 2.0, expressions.key_constant),
        ("bound", 1.5, expressions.slice_bound),
        ("bound", 1.5, expressions.loop_bound),
        ("bound", 1.5, statements.loop_skips),
        ("logic", 1.5, expressions.conditional_expression_swapped),
        ("variable", 2.0, expressions.wrong_variable),
        ("call", 1.5, expressions.await_removed),
        ("missing case", 2.0, expressions.fallback_dropped),
        ("call", 1.5, calls.arguments_swapped),
        ("call", 2.5, calls.argument_dropped),
        ("call", 1.5, calls.neighbouring_function),
        ("call", 2.0, calls.sorting_dropped),
        ("call", 2.5, calls.copy_dropped),
        ("exception", 1.5, calls.exception_type),
        ("exception", 2.0, calls.caught_types_narrowed),
        ("exception", 2.5, statements.handler_dropped),
        ("missing statement", 2.5, statements.statement_removed),
        ("missing statement", 2.5, statements.state_update_removed),
        ("missing case", 2.5, statements.guard_removed),
        ("missing case", 2.5, statements.early_exit_removed),
        ("missing case", 3.0, statements.branch_dropped),
        ("missing case", 2.0, statements.else_always),
        ("flow", 1.5, statements.returns_nothing),
        ("flow", 1.5, statements.return_too_early),
        ("flow", 1.5, statements.break_continue_swapped),
        ("flow", 2.5, statements.statements_swapped),
        ("body", 4.0, statements.body_removed),
    )
    for family, weight, find in rows:
        yield Operator(name=find.__name__, family=family, weight=weight, find=find)


OPERATORS: tuple[Operator, ...] = tuple(_operators())
"""All operators; reproducible draws depend on their order."""

_BY_NAME = {operator.name: operator for operator in OPERATORS}


def operator_named(name: str) -> Operator:
    """Return the operator of that name. Raises `UsageError` naming similar ones."""
    return named("mutation operator", name, _BY_NAME)
