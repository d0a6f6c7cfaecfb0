"""Generated tasks: the public names of `agentgym.core.procedural`."""

from __future__ import annotations

from agentgym.core.procedural import (
    SEED_DIGITS,
    Draft,
    Families,
    Family,
    NoFit,
    ProceduralTasks,
    Scene,
    Wording,
    by_level,
    choose_families,
    divide,
    must_belong,
)

__all__ = [
    "SEED_DIGITS",
    "Draft",
    "Families",
    "Family",
    "NoFit",
    "ProceduralTasks",
    "Scene",
    "Wording",
    "by_level",
    "choose_families",
    "divide",
    "must_belong",
]
