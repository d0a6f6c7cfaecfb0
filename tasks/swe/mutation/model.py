"""The data model of mutations: replacements in a text, and their origin. Knows no operator."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.errors import UsageError


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
