"""The data model of mutations: replacements in a text, and their origin. Knows no operator."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from agentgym.base.errors import UsageError


@dataclass(frozen=True, order=True)
class Edit:
    """Replaces characters `start` to `end` of a text with `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Mutation:
    """One bug at one place of one source text."""

    operator: str
    function: str
    """Qualified name of the function around it as in `code.co_qualname`; empty at module and class level."""
    line: int
    """First changed line, from 1."""
    last_line: int
    edits: tuple[Edit, ...]
    """In order, not overlapping."""
    note: str
    """The change, for reports: never shown to a policy."""


def apply(source: str, mutation: Mutation) -> str:
    """Return the source with the mutation's edits made. Raises `UsageError` if they do not fit the text."""
    pieces: list[str] = []
    reached = 0
    for edit in mutation.edits:
        if not reached <= edit.start <= edit.end <= len(source):
            raise UsageError(f"edit {edit} of {mutation.operator!r} does not fit a text of {len(source)} characters")
        pieces += (source[reached : edit.start], edit.text)
        reached = edit.end
    return "".join((*pieces, source[reached:]))


def invert(source: str, mutation: Mutation) -> Mutation:
    """Return the mutation that turns `apply(source, mutation)` back into `source`."""
    edits: list[Edit] = []
    shift = 0
    for edit in mutation.edits:
        start = edit.start + shift
        edits.append(Edit(start, start + len(edit.text), source[edit.start : edit.end]))
        shift += len(edit.text) - (edit.end - edit.start)
    return Mutation(
        operator=mutation.operator,
        function=mutation.function,
        line=mutation.line,
        last_line=mutation.last_line,
        edits=tuple(edits),
        note=f"undo: {mutation.note}",
    )


Located = tuple[str, Mutation]
"""A path and a mutation of the file there."""


def apply_all(sources: Mapping[str, str], located: Sequence[Located]) -> dict[str, str]:
    """Return the changed files. Raises `UsageError` where mutations overlap."""
    changed: dict[str, str] = {}
    for path, group in groupby(sorted(located, key=lambda item: (item[0], item[1].edits)), key=lambda item: item[0]):
        changed[path] = apply(sources[path], merged([mutation for _, mutation in group]))
    return changed


def merged(mutations: Sequence[Mutation]) -> Mutation:
    """Return one mutation with the edits of all. Raises `UsageError` if they overlap or touch."""
    edits: list[Edit] = sorted(edit for mutation in mutations for edit in mutation.edits)
    for before, after in pairwise(edits):
        if after.start <= before.end and not _of_one(mutations, before, after):
            raise UsageError(f"mutations overlap at characters {after.start} to {before.end}")
    return Mutation(
        operator="+".join(mutation.operator for mutation in mutations),
        function=mutations[0].function,
        line=min(mutation.line for mutation in mutations),
        last_line=max(mutation.last_line for mutation in mutations),
        edits=tuple(edits),
        note="; ".join(mutation.note for mutation in mutations),
    )


def combinations(
    located: Sequence[Located], rng: random.Random, *, sizes: Sequence[int] = (2, 2, 3, 4)
) -> Iterator[tuple[Located, ...]]:
    """Yield sets of mutations in different functions, endlessly unless there are too few.

    Args:
        located: The mutations to combine, e.g. those that are valid alone.
        rng: Source of all draws.
        sizes: Numbers of mutations to combine; one is drawn each time.
    """
    places = {(path, mutation.function) for path, mutation in located}
    if len(places) < 2:
        return
    while True:
        size = min(rng.choice(sizes), len(places))
        combination: list[Located] = []
        for path, mutation in rng.sample(list(located), len(located)):
            if all((path, mutation.function) != (where, other.function) for where, other in combination):
                combination.append((path, mutation))
            if len(combination) == size:
                break
        yield tuple(sorted(combination, key=lambda item: (item[0], item[1].edits)))


def _of_one(mutations: Sequence[Mutation], before: Edit, after: Edit) -> bool:
    return any(before in mutation.edits and after in mutation.edits for mutation in mutations)
