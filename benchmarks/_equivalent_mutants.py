"""Faults that are none: the program does the same, or what it does otherwise nobody is promised."""

from __future__ import annotations

from typing import NamedTuple


class Equivalent(NamedTuple):
    """A mutant that no test should notice. Named by what its line says, so that it is found again after edits."""

    file: str
    line: str
    becomes: str
    why: str


EQUIVALENT: tuple[Equivalent, ...] = ()
