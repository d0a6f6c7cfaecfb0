"""Players of MiniWoB++ pages with fields to fill in, or with text to select, to copy or to type with keys."""

from __future__ import annotations

import re
from datetime import datetime

from agentgym.core.engine.steps import Solution
from agentgym.core.messages import ToolCall
from agentgym.envs.web.miniwob.solutions.registry import Sight, click, number, player, press


@player("enter-text", "enter-text-dynamic")
def enter_text(sight: Sight) -> Solution:
    """Enter a text and submit."""
    (text,) = sight.words(r'"(.*)"')
    yield sight.type(text)
    yield sight.click("button", "Submit")


@player("enter-text-2")
def enter_in_case(sight: Sight) -> Solution:
    """Enter a text in upper or lower case and submit."""
    text, case = sight.words(r'"(.*)" in all (\w+) case')
    yield sight.type(text.upper() if case == "upper" else text.lower())
    yield sight.click("button", "Submit")


@player("enter-password")
def enter_password(sight: Sight) -> Solution:
    """Enter a password twice and submit."""
    (text,) = sight.words(r'"(.*)"')
    yield sight.type(text)
    yield sight.type(text, nth=1)
    yield sight.click("button", "Submit")


@player("enter-date")
def enter_date(sight: Sight) -> Solution:
    """Enter a date and submit; a date field takes years first."""
    (text,) = sight.words(r"Enter (\S+) as")
    yield sight.type(datetime.strptime(text, "%m/%d/%Y").strftime("%Y-%m-%d"))
    yield sight.click("button", "Submit")


@player("enter-time")
def enter_time(sight: Sight) -> Solution:
    """Enter a time and submit; a time field counts 24 hours."""
    (text,) = sight.words(r"Enter (.+?) as")
    yield sight.type(datetime.strptime(text, "%I:%M %p").strftime("%H:%M"))
    yield sight.click("button", "Submit")


@player("login-user")
def log_in(sight: Sight) -> Solution:
    """Enter name and password and log in."""
    name, password = sight.words(r'username "(.*)" and the password "(.*)"')
    yield sight.type(name)
    yield sight.type(password, nth=1)
    yield sight.click("button", "Login")


@player("login-user-popup")
def log_in_despite_popups(sight: Sight) -> Solution:
    """Enter name and password and log in; close any pop-up."""
    texts = sight.words(r'username "(.*)" and the password "(.*)"')
    done = [False, False]
    while not all(done):
        if cancel := sight.all("button", "Cancel"):
            yield ToolCall("click", {"ref": cancel[0].ref})
            continue
        place = done.index(False)
        yield sight.type(texts[place], nth=place)
        done = [field.value == text for field, text in zip(sight.all("textbox"), texts, strict=False)]
    yield sight.click("button", "OK")


@player("form-sequence-2")
def choose_and_enter(sight: Sight) -> Solution:
    """Choose a radio button, fill in a field, submit."""
    radio, text, field = sight.words(r'the (\w+) radio button and enter the number "(.+)" into the (\w+) textbox')
    yield sight.click("radio", nth=number(radio))
    yield sight.type(text, nth=number(field))
    yield sight.click("button", "Submit")


@player("form-sequence-3")
def choose_and_press(sight: Sight) -> Solution:
    """Choose from a list, then press a button."""
    option, name = sight.words(r'Choose (.+) from the dropdown, then click the button labeled "(.+)"')
    yield ToolCall("select", {"ref": sight.all("combobox")[0].ref, "option": option})
    yield sight.click("button", name)


@player("multi-layouts", "multi-orderings")
def search_films(sight: Sight) -> Solution:
    """Fill in genre, director and year by the words near the fields, and search."""
    genre, director, year = sight.words(r"Search for (.+) movies directed by (.+) from year (\d+)")
    labels = re.findall(r"(?i)(genre|director|year|date)", _labels(sight))
    texts = {"genre": genre, "director": director, "year": year, "date": year}
    for place, label in enumerate(labels):
        yield sight.type(texts[label.lower()], nth=place)
    yield sight.click("button")


@player("scroll-text-2")
def scroll_area(sight: Sight) -> Solution:
    """Scroll the text to its top or bottom and submit."""
    (way,) = sight.words(r"to the (top|bottom)")
    yield _scroll_to_end(sight, "up" if way == "top" else "down")
    yield sight.click("button", "Submit")


@player("sign-agreement")
def sign(sight: Sight) -> Solution:
    """Scroll to the end of the agreement, enter the name, and agree or cancel."""
    if sight.instruction == "Click the cancel button.":
        yield sight.click("button", "Cancel")
        return
    name, button = sight.words(r'the name "(.+)" then press "(\w+)"')
    yield _scroll_to_end(sight, "down")
    yield sight.type(name, nth=1)
    yield sight.click("button", button)


def _scroll_to_end(sight: Sight, direction: str) -> ToolCall:
    """Return a scroll of the first text area to its end."""
    return ToolCall("scroll", {"direction": direction, "ref": sight.all("textbox")[0].ref, "screens": 100})


def _labels(sight: Sight) -> str:
    """Return the names of the fields in order, without the instruction."""
    lines = [node.label for node in sight.look().nodes if node.label and node.label != sight.instruction]
    return "\n".join(line for line in lines if "Search for" not in line)


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
