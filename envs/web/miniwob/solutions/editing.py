"""Players of MiniWoB++ pages with text to select, to copy or to type with keys."""

from __future__ import annotations

import re

from agentgym.core.engine.steps import Solution
from agentgym.core.messages import ToolCall
from agentgym.envs.web.miniwob.solutions.registry import Sight, click, number, player, press

_COLOURS = {
    "red": "230, 0, 0",
    "orange": "255, 153, 0",
    "yellow": "255, 255, 0",
    "green": "0, 138, 0",
    "blue": "0, 102, 204",
    "purple": "153, 51, 255",
}
"""Colours of the editor by name."""
_STYLES = {"bold": "Bold", "italics": "Italic", "underlined": "Underline"}


@player("highlight-text")
def select_paragraph(sight: Sight) -> Solution:
    """Select the paragraph and submit."""
    (paragraph,) = _paragraphs(sight)
    yield ToolCall("select_text", {"text": paragraph})
    yield sight.click("button", "Submit")


@player("highlight-text-2")
def select_numbered_paragraph(sight: Sight) -> Solution:
    """Select the paragraph of a number and submit."""
    (place,) = sight.words(r"the (\w+) paragraph")
    yield ToolCall("select_text", {"text": _paragraphs(sight)[number(place)]})
    yield sight.click("button", "Submit")


@player("text-editor")
def style_text(sight: Sight) -> Solution:
    """Select a word or everything, give it a style or a colour, and submit."""
    what, style = sight.words(r"(?:give|make) (?:the text )?(.+?) (?:the style|the color) (\w+)")
    editor = sight.all("textbox")[0]
    view = sight.look()
    places = view.children(view.nodes.index(editor))
    whole = " ".join(view.text_of(place) for place in places) or editor.value
    yield ToolCall("select_text", {"text": whole if what == "everything" else what, "ref": editor.ref})
    if style in _STYLES:
        yield sight.click("button", _STYLES[style])
    else:
        yield sight.click("button", "Color")
        yield sight.click("button", f"rgb({_COLOURS[style]})")
    yield sight.click("button", "Submit")


@player("copy-paste", "copy-paste-2")
def copy_text(sight: Sight) -> Solution:
    """Copy the text of an area, paste it into the field, and submit."""
    place = re.search(r"the (\d\w+) text area", sight.instruction)
    areas, fields = ([node for node in sight.all("textbox") if bool(node.value) is full] for full in (True, False))
    yield click(areas[number(place[1]) if place else 0])
    yield press("Control+a")
    yield press("Control+c")
    yield click(fields[0])
    yield press("Control+v")
    yield sight.click("button", "Submit")


@player("terminal")
def delete_file(sight: Sight) -> Solution:
    """List the files and delete one with the ending, or one without."""
    ending = re.search(r"extension (\.\S+)", sight.instruction)
    yield from _enter(sight, "ls")
    lines = [line.strip() for line in sight.look().lines]
    files = lines[next(place for place, line in enumerate(lines) if line.endswith("ls")) + 1].split()
    right = [name for name in files if (name.endswith(ending[1]) if ending else "." not in name)]
    yield from _enter(sight, f"rm {right[0]}")


def _enter(sight: Sight, command: str) -> Solution:
    yield sight.type(command)
    yield press("Enter")


def _paragraphs(sight: Sight) -> list[str]:
    texts = [node.value for node in sight.look().nodes if node.value]
    return [text for text in texts if text != sight.instruction and not text.startswith("Highlight")]
