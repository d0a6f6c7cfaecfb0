"""Parses Playwright's accessibility snapshot (`aria_snapshot(mode="ai")`, a small subset of YAML) into nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from agentgym.tools.browser.view import ViewNode

INTERACTIVE = frozenset(
    {"button", "checkbox", "combobox", "link", "listbox", "menuitem", "menuitemcheckbox", "menuitemradio", "option"}
    | {"radio", "scrollbar", "searchbox", "slider", "spinbutton", "switch", "tab", "textbox", "treeitem"}
)
STATES = {"checked", "disabled", "expanded", "level", "pressed", "selected", "invalid"}
LINE = re.compile(r"( *)- (.*)")
ROLE = re.compile(r"([\w-]+)(?: (\"(?:[^\"\\]|\\.)*\"))?((?: \[[^\]]*\])*)(?:: ?(.*)|:)?$")
SINGLE_QUOTED = re.compile(r"'((?:[^']|'')*)'(:.*)?$")
ATTRIBUTE = re.compile(r"\[([\w-]+)(?:=([^\]]*))?\]")
PROPERTY = re.compile(r"/([\w-]+): ?(.*)")
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)")
CONTROL = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def parse_snapshot(snapshot: str, number: Callable[[str], str], everything: bool = False) -> tuple[ViewNode, ...]:
    """Return the nodes of a snapshot in document order.

    `number` maps Playwright's refs to the shown ones. Only actionable nodes are numbered, unless `everything` is set.
    """
    nodes: list[ViewNode] = []
    above: list[tuple[int, int]] = []
    for line in snapshot.split("\n"):
        match = LINE.match(line)
        if match is None:
            continue
        indent, item = len(match[1]), match[2]
        while above and above[-1][0] >= indent:
            above.pop()
        parent = above[-1][1] if above else None
        if (described := PROPERTY.match(item)) is not None:
            if parent is not None and described[1] == "url":
                nodes[parent] = _changed(nodes[parent], url=_scalar(described[2]))
            elif parent is not None and described[1] == "placeholder":
                nodes[parent] = _changed(nodes[parent], placeholder=_scalar(described[2]))
            continue
        nodes.append(_node(item, len(above), parent, number, everything))
        above.append((indent, len(nodes) - 1))
    return tuple(nodes)


def first_ref(snapshot: str) -> str:
    """Return the first ref in a snapshot; its frame prefix changes with every new document."""
    match = re.search(r"\[ref=(\w+)\]", snapshot)
    return match[1] if match else ""


def _node(item: str, depth: int, parent: int | None, number: Callable[[str], str], everything: bool) -> ViewNode:
    if (quoted := SINGLE_QUOTED.match(item)) is not None:
        item = quoted[1].replace("''", "'") + (quoted[2] or "")
    match = ROLE.match(item)
    if match is None:
        return ViewNode("text", value=_scalar(item), depth=depth, parent=parent)
    role, name, attributes, value = match.groups()
    marks = {key: value or "true" for key, value in ATTRIBUTE.findall(attributes or "")}
    states = {key: value for key, value in marks.items() if key in STATES}
    if "active" in marks and role not in ("generic", "document", "iframe"):
        states["focused"] = "true"
    handle = marks.get("ref", "")
    addressable = handle and (everything or role in INTERACTIVE or "cursor" in marks)
    ref = number(handle) if addressable else ""
    box = marks.get("box")
    return ViewNode(
        role=role,
        name=_unescaped(name[1:-1]) if name else "",
        value=_scalar(value or ""),
        ref=ref,
        states=states,
        depth=depth,
        parent=parent,
        handle=handle,
        box=tuple(int(float(part)) for part in box.split(",")) if box else None,  # pyright: ignore[reportArgumentType]
    )


def _changed(node: ViewNode, url: str | None = None, placeholder: str | None = None) -> ViewNode:
    states = dict(node.states)
    if placeholder is not None and placeholder != node.name:
        states["placeholder"] = json.dumps(placeholder, ensure_ascii=False)
    return ViewNode(
        node.role, node.name, node.value, node.ref, states, node.url if url is None else url, node.depth, node.parent,
        node.handle, node.box,
    )  # fmt: skip


def _scalar(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return _unescaped(text[1:-1])
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else CONTROL.get(code, code)

    return ESCAPE.sub(plain, text) if "\\" in text else text
