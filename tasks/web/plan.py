"""The vocabulary of plans: one function per kind of step, each returning plain data.

`role` and `name` are those of the accessibility tree. `nth` (from 0) and `within` (a text of an enclosing element)
choose among elements with the same name.
"""

from __future__ import annotations

from typing import Any


def click(role: str, name: str, nth: int | None = None, within: str | None = None) -> dict[str, Any]:
    """Click an element."""
    return _on("click", role, name, nth, within)


def link(name: str, nth: int | None = None, within: str | None = None) -> dict[str, Any]:
    """Follow a link."""
    return click("link", name, nth, within)


def button(name: str, nth: int | None = None, within: str | None = None) -> dict[str, Any]:
    """Press a button."""
    return click("button", name, nth, within)


def tick(name: str, nth: int | None = None, within: str | None = None) -> dict[str, Any]:
    """Click a check box, which toggles it."""
    return click("checkbox", name, nth, within)


def choose(name: str, nth: int | None = None, within: str | None = None) -> dict[str, Any]:
    """Click a radio button."""
    return click("radio", name, nth, within)


def fill(name: str, text: str, role: str = "textbox", nth: int | None = None, within: str | None = None):
    """Type text into a field, replacing its content."""
    return _on("fill", role, name, nth, within) | {"text": text}


def number(name: str, value: int, nth: int | None = None, within: str | None = None) -> dict[str, Any]:
    """Type a number into a number field."""
    return fill(name, str(value), "spinbutton", nth, within)


def select(name: str, value: str, nth: int | None = None, within: str | None = None) -> dict[str, Any]:
    """Choose an option of a drop-down list by its label."""
    return _on("select", "combobox", name, nth, within) | {"value": value}


def goto(path: str) -> dict[str, Any]:
    """Open an address of the site."""
    return {"do": "goto", "path": path}


def accept() -> dict[str, Any]:
    """Accept the next dialog."""
    return {"do": "dialog", "accept": True}


def answer(text: str) -> dict[str, Any]:
    """Give the answer and end the episode."""
    return {"do": "answer", "text": text}


def _on(do: str, role: str, name: str, nth: int | None, within: str | None) -> dict[str, Any]:
    step: dict[str, Any] = {"do": do, "role": role, "name": name}
    if nth is not None:
        step["nth"] = nth
    if within is not None:
        step["within"] = within
    return step
