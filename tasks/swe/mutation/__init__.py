"""Mutation: injects realistic bugs into Python source, as edits of the text that leave everything else unchanged."""

from agentgym.tasks.swe.mutation.model import Edit, Mutation, apply, apply_all, combinations, invert
from agentgym.tasks.swe.mutation.sites import sites
from agentgym.tasks.swe.mutation.table import OPERATORS, Operator, operator_named

__all__ = [
    "OPERATORS",
    "Edit",
    "Mutation",
    "Operator",
    "apply",
    "apply_all",
    "combinations",
    "invert",
    "operator_named",
    "sites",
]
