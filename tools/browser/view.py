"""A page as a model sees it: a tree of nodes with refs, and its text form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher, get_close_matches
from functools import cached_property

from agentgym.base.errors import ToolError
from agentgym.tools.browser.options import PageError

MAX_NAME = 200
MAX_URL = 120
CELLS = frozenset({"cell", "columnheader", "rowheader", "gridcell"})
PLAIN = frozenset({"generic", "rowgroup", "none", "presentation", "paragraph", "text", "strong", "emphasis", "code"})


@dataclass(frozen=True)
class ViewNode:
    """One element or piece of text. Actions take `ref`, which is empty for nodes that are not actionable."""

    role: str
    name: str = ""
    value: str = ""
    ref: str = ""
    states: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    depth: int = 0
    parent: int | None = None
    handle: str = field(default="", compare=False)
    box: tuple[int, int, int, int] | None = field(default=None, compare=False)

    @property
    def label(self) -> str:
        """The node's name, or its text if it has no name."""
        return self.name or self.value

    def line(self) -> str:
        """Return the node as one line, without indentation."""
        parts = [f"[{self.ref}]"] if self.ref else []
        bare = not self.ref and not self.name and not self.states and self.role in PLAIN
        if bare and self.value:
            return _clipped(self.value, MAX_NAME * 10)
        parts.append(self.role)
        if self.name:
            parts.append(f'"{_clipped(self.name, MAX_NAME)}"')
        if self.states:
            parts.append("(" + ", ".join(_state(name, value) for name, value in self.states.items()) + ")")
        if self.url:
            parts.append("-> " + _clipped(self.url, MAX_URL))
        line = " ".join(parts)
        return f"{line}: {_clipped(self.value, MAX_NAME * 10)}" if self.value else line


@dataclass(frozen=True)
class View:
    """A page at one moment.

    `notices` report what happened since the previous view (dialogs, downloads, tabs); `selected` is the selected text.
    """

    url: str
    title: str
    nodes: tuple[ViewNode, ...]
    tabs: tuple[str, ...] = ()
    tab: int = 0
    notices: tuple[str, ...] = ()
    selected: str = ""
    scroll: str = ""
    note: str = ""

    @cached_property
    def header(self) -> str:
        """The title, URL, tabs, selected text, scroll position and notices."""
        lines = [f"Page: {self.title or '(no title)'}", f"URL: {self.url}"]
        if len(self.tabs) > 1:
            lines += [
                f"Tab {index}{' (this one)' if index == self.tab else ''}: {url}" for index, url in enumerate(self.tabs)
            ]
        if self.selected.strip():
            lines.append(f'Selected: "{_clipped(self.selected, MAX_NAME)}"')
        lines += [part for part in (self.scroll, self.note) if part]
        return "\n".join(lines + [f"Notice: {notice}" for notice in self.notices])

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The page's lines, indented by depth; meaningless wrappers are left out."""
        lines, level, folded = [], {-1: 0}, set()
        for index, node in enumerate(self.nodes):
            above = -1 if node.parent is None else node.parent
            level[index] = level.get(above, 0)
            if above in folded:
                folded.add(index)
                continue
            if node.role == "row" and (row := self._row(index)):
                lines.append(" " * level[index] + row)
                folded.add(index)
            elif node.ref or node.label or node.role not in PLAIN:
                lines.append(" " * level[index] + node.line())
                level[index] += 1
        return tuple(lines)

    @cached_property
    def text(self) -> str:
        """The whole view as text."""
        return "\n".join((self.header, "", *self.lines))

    @cached_property
    def refs(self) -> Mapping[str, ViewNode]:
        """The actionable nodes, by ref."""
        return {node.ref: node for node in self.nodes if node.ref}

    @cached_property
    def focused(self) -> ViewNode | None:
        """The node with keyboard focus."""
        return next((node for node in self.nodes if "focused" in node.states), None)

    def node(self, ref: str) -> ViewNode:
        """Return the node with this ref; a `PageError` lists similar refs."""
        bare_ref = ref.strip().strip("[]").strip() if isinstance(ref, str) else ""
        if bare_ref in self.refs:
            return self.refs[bare_ref]
        close = get_close_matches(bare_ref, self.refs, n=3, cutoff=0.5) or list(self.refs)[:3]
        hints = "; ".join(self.refs[name].line() for name in close)
        raise PageError(
            f"no element {str(ref)[:40]!r} in the last view of this page"
            + (f"; for example: {hints}" if hints else "; it has no elements to act on")
        )

    def children(self, index: int) -> list[int]:
        """Return the positions of the children of the node at `index`."""
        return self._tree.get(index, [])

    def text_of(self, index: int) -> str:
        """Return the names and texts of the node at `index` and of its descendants."""
        if index not in self._texts:
            end = index + 1
            while end < len(self.nodes) and self.nodes[end].depth > self.nodes[index].depth:
                end += 1
            parts = [part for node in self.nodes[index:end] for part in (node.name, node.value) if part]
            self._texts[index] = " ".join(parts)
        return self._texts[index]

    def find_all(self, role: str | None, name: str | None = None, within: str | None = None) -> list[ViewNode]:
        """Return the nodes with this role and name, in document order.

        `name` is compared with the name, or with the text of nameless nodes; nodes that only contain it are returned
        when none equals it. `within` keeps those whose closest container (row, item, form, ...) contains that text.
        """
        matches = [i for i, node in enumerate(self.nodes) if node.role == role or (role is None and node.ref)]
        if name is not None:
            text = _folded(name)
            called = {i: _folded(self.nodes[i].name or self.text_of(i)) for i in matches}
            matches = [i for i in matches if called[i] == text] or [i for i in matches if text in called[i]]
        if within is not None:
            matches = self._within(matches, _folded(within))
        return [self.nodes[i] for i in matches]

    def find(self, role: str | None, name: str | None = None, nth: int = 0, within: str | None = None) -> ViewNode:
        """Return the `nth` of `find_all`; a `PageError` says how many there are."""
        matches = self.find_all(role, name, within)
        if not -len(matches) <= nth < len(matches):
            raise PageError(
                f"no element {nth} with role {role!r}, name {name!r}, within {within!r}: "
                f"{self.url} has {len(matches)} of them"
            )
        return matches[nth]

    @cached_property
    def _texts(self) -> dict[int, str]:
        return {}

    @cached_property
    def _tree(self) -> dict[int, list[int]]:
        tree: dict[int, list[int]] = {}
        for index, node in enumerate(self.nodes):
            if node.parent is not None:
                tree.setdefault(node.parent, []).append(index)
        return tree

    def _row(self, index: int) -> str:
        """Return a table row of plain cells as one line; empty when the row contains something actionable."""
        cells = [self.nodes[child] for child in self.children(index)]
        plain = all(cell.role in CELLS and not cell.ref for cell in cells)
        if not cells or not plain or self.nodes[index].ref or any(self.children(i) for i in self.children(index)):
            return ""
        return "row: " + " | ".join(_clipped(cell.label, MAX_NAME) for cell in cells)

    def _above(self, index: int) -> list[int]:
        above, parent = [], self.nodes[index].parent
        while parent is not None:
            above.append(parent)
            parent = self.nodes[parent].parent
        return above

    def _within(self, indices: list[int], text: str) -> list[int]:
        """Keep the nodes whose nearest ancestor with `text` contains no other node's nearest ancestor."""
        holder = {i: next((a for a in self._above(i) if text in _folded(self.text_of(a))), None) for i in indices}
        outer = {above for holding in holder.values() if holding is not None for above in self._above(holding)}
        return [i for i in indices if holder[i] is not None and holder[i] not in outer]


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _clipped(text: str, limit: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _state(name: str, value: str) -> str:
    return name if value == "true" else f"{name} {value}" if value != "false" else f"not {name}"


PREFIX = re.compile(r"(f\d+)?")


class Numbering:
    """Maps Playwright's refs, which include a frame number that grows with every navigation, to stable ones."""

    def __init__(self) -> None:
        self._document: str | None = None
        self._numbers: dict[str, str] = {}

    def begin(self, document: str) -> None:
        """Start a view; refs restart at e1 when `document` has changed."""
        if document != self._document:
            self._document, self._numbers = document, {}

    def number(self, handle: str) -> str:
        """Return an element's ref, creating one if it has none."""
        return self._numbers.setdefault(handle, f"e{len(self._numbers) + 1}")


def frame_of(handle: str) -> str:
    """Return the frame part of one of Playwright's refs ("f2" of "f2e14", "" of "e14")."""
    match = PREFIX.match(handle)
    return (match[1] if match else "") or ""


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
    lines = [_observe_folded(start)] if start else []
    matcher = SequenceMatcher(None, middle_old, middle_new, autojunk=False)
    covered = 0
    for group in matcher.get_grouped_opcodes(context):
        if group[0][3] > covered:
            lines.append(_observe_folded(group[0][3] - covered))
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f"  {line}" for line in middle_new[j1:j2]]
            else:
                lines += [f"- {line}" for line in middle_old[i1:i2]] + [f"+ {line}" for line in middle_new[j1:j2]]
        covered = group[-1][4]
    rest = len(middle_new) - covered + end
    return [*lines, _observe_folded(rest)] if rest else lines


def _observe_folded(count: int) -> str:
    return f"  ... ({count} unchanged line{'s' if count != 1 else ''})"
