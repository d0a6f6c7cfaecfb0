"""A page as a model sees it: a tree of nodes with refs, and its text form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property

from agentgym.tools.browser.errors import PageError

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
    """A page at one moment. `notices` report what happened since the previous view (dialogs, downloads, tabs)."""

    url: str
    title: str
    nodes: tuple[ViewNode, ...]
    tabs: tuple[str, ...] = ()
    tab: int = 0
    notices: tuple[str, ...] = ()
    scroll: str = ""
    note: str = ""

    @cached_property
    def header(self) -> str:
        """The title, URL, tabs, scroll position and notices."""
        lines = [f"Page: {self.title or '(no title)'}", f"URL: {self.url}"]
        if len(self.tabs) > 1:
            lines += [
                f"Tab {index}{' (this one)' if index == self.tab else ''}: {url}" for index, url in enumerate(self.tabs)
            ]
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
