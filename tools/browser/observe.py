"""Shortens views: pages of a long text, and the difference between two views."""

from __future__ import annotations

from difflib import SequenceMatcher

from agentgym.errors import ToolError
from agentgym.tools.browser.view import View

MAX_COMPARED = 1500


def pages_of(text: str, max_chars: int = 6000) -> list[str]:
    """Split a text into pages of at most `max_chars`, at line boundaries; longer lines are split too."""
    if max_chars < 1:
        raise ValueError(f"max_chars must be at least 1, not {max_chars!r}")
    pages: list[str] = []
    room = 0
    for line in text.split("\n"):
        for piece in [line[i : i + max_chars] for i in range(0, len(line), max_chars)] or [""]:
            if pages and len(piece) + 1 <= room:
                pages[-1] += "\n" + piece
                room -= len(piece) + 1
            else:
                pages.append(piece)
                room = max_chars - len(piece)
    return pages


def page_of(text: str, number: int = 1, max_chars: int = 6000) -> str:
    """Return one page of a text (from 1); if there are several, the last line gives their number."""
    pages = pages_of(text, max_chars)
    if not 1 <= number <= len(pages):
        raise ToolError(f"page {number!r} does not exist: this view has pages 1 to {len(pages)}")
    if len(pages) == 1:
        return text
    return f"{pages[number - 1]}\n[page {number} of {len(pages)}]"


def difference(before: View | None, after: View, context: int = 1) -> str:
    """Describe what changed between two views, as text.

    Unchanged parts are folded, removed lines start with "-", new ones with "+". Returns the whole view instead if
    no earlier view exists, the page is a different one, or the whole view is shorter.
    """
    if before is None or before.url.partition("#")[0] != after.url.partition("#")[0]:
        return after.text
    if before.lines == after.lines:
        return f"{after.header}\n\n(nothing else changed)"
    changes = _changes(before.lines, after.lines, context)
    if changes is None or sum(map(len, changes)) + len(changes) >= sum(map(len, after.lines)) + len(after.lines):
        return after.text
    return "\n".join((after.header, "", "Changes since the last view:", *changes))


def _changes(old: tuple[str, ...], new: tuple[str, ...], context: int) -> list[str] | None:
    """Return the lines of a folded diff, or `None` when there is too much to compare."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    start, end = max(start - context, 0), max(end - context, 0)
    middle_old, middle_new = old[start : len(old) - end], new[start : len(new) - end]
    if len(middle_old) > MAX_COMPARED or len(middle_new) > MAX_COMPARED:
        return None
    lines = [_folded(start)] if start else []
    matcher = SequenceMatcher(None, middle_old, middle_new, autojunk=False)
    covered = 0
    for group in matcher.get_grouped_opcodes(context):
        if group[0][3] > covered:
            lines.append(_folded(group[0][3] - covered))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f"  {line}" for line in middle_new[j1:j2]]
            else:
                lines += [f"- {line}" for line in middle_old[i1:i2]] + [f"+ {line}" for line in middle_new[j1:j2]]
        covered = group[-1][4]
    rest = len(middle_new) - covered + end
    return [*lines, _folded(rest)] if rest else lines


def _folded(count: int) -> str:
    return f"  ... ({count} unchanged line{'s' if count != 1 else ''})"
