"""Players of MiniWoB++ pages with fields to fill in."""

from __future__ import annotations

import re
from datetime import datetime

from agentgym.core.engine.steps import Solution
from agentgym.core.messages import ToolCall
from agentgym.envs.web.miniwob.solutions.registry import Sight, number, player


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
