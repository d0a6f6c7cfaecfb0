"""Players of MiniWoB++ pages with boxes to tick, lists to choose from, sliders, spinners and dates."""

from __future__ import annotations

import re
from datetime import datetime

from agentgym.core.engine.steps import Solution
from agentgym.core.messages import ToolCall
from agentgym.envs.web.miniwob.solutions.registry import Sight, click, player, press
from agentgym.tools.browser import ViewNode


@player("click-option")
def tick_option(sight: Sight) -> Solution:
    """Choose an option and submit."""
    (name,) = sight.words(r"Select (\S+) and")
    yield sight.click("radio", name)
    yield sight.click("button", "Submit")


@player("click-checkboxes", "click-checkboxes-large", "click-checkboxes-transfer")
def tick_boxes(sight: Sight) -> Solution:
    """Tick the named boxes and submit."""
    (names,) = sight.words(r"Select (.+) and click")
    for name in () if names == "nothing" else names.split(", "):
        yield sight.click("checkbox", name)
    yield sight.click("button", "Submit")


@player("click-checkboxes-soft")
def tick_similar_boxes(sight: Sight) -> Solution:
    """Tick the boxes of words that mean the same as the named ones, and submit."""
    (names,) = sight.words(r"similar to (.+) and click")
    synonyms = sight.read("SYNONYMS")
    for name in names.split(", "):
        alike = {word for words in synonyms if name in words for word in words}
        yield click(next(box for box in sight.all("checkbox") if box.name in alike and "checked" not in box.states))
    yield sight.click("button", "Submit")


@player("number-checkboxes")
def draw_number(sight: Sight) -> Solution:
    """Tick the boxes of the pattern and submit."""
    pattern = next(node.name for node in sight.look().nodes if node.name.startswith("boxes to tick"))
    for place, mark in enumerate("".join(pattern.partition(": ")[2].split())):
        if mark == "1":
            yield sight.click("checkbox", nth=place)
    yield sight.click("button", "Submit")


@player("use-colorwheel")
def choose_named_colour(sight: Sight) -> Solution:
    """Type the code of a named colour and submit."""
    (name,) = sight.words(r"Select (\w+) with")
    yield from _enter_colour(sight, sight.read(f"ui_utils.colorNameToHex({name!r})"))


@player("use-colorwheel-2")
def choose_shown_colour(sight: Sight) -> Solution:
    """Type the code of the shown colour and submit."""
    shown = next(node.name for node in sight.look().nodes if node.name.startswith("rgb("))
    yield from _enter_colour(sight, "#{:02x}{:02x}{:02x}".format(*map(int, re.findall(r"\d+", shown))))


def _enter_colour(sight: Sight, code: str) -> Solution:
    """Type a code and submit with keys: the colours on show may cover the button."""
    yield sight.type(code.strip("#").upper())
    yield press("Tab")
    yield press("Enter")


@player("choose-list")
def choose_from_list(sight: Sight) -> Solution:
    """Choose from a drop-down list and submit."""
    (name,) = sight.words(r"Select (.+) from the list")
    yield ToolCall("select", {"ref": sight.all("combobox")[0].ref, "option": name})
    yield sight.click("button", "Submit")


@player("click-scroll-list")
def choose_from_scroll_list(sight: Sight) -> Solution:
    """Choose from a scroll list and submit."""
    (names,) = sight.words(r"Select (.+) from the scroll list")
    first, *more = names.split(", ")
    yield ToolCall("select", {"ref": sight.all("listbox")[0].ref, "option": first, "also": more})
    yield sight.click("button", "Submit")


@player("choose-date", "choose-date-easy", "choose-date-medium", "choose-date-nodelay")
def choose_date(sight: Sight) -> Solution:
    """Turn the calendar to the month and click the day."""
    (date,) = sight.words(r"Select (\S+) as the date")
    day = datetime.strptime(date, "%m/%d/%Y")
    yield sight.click("textbox")
    yield from _pick_day(sight, day)
    yield sight.click("button", "Submit")


@player("use-spinner")
def turn_spinner(sight: Sight) -> Solution:
    """Click the spinner's buttons until it shows the number, and submit; the page refuses typed numbers."""
    (value,) = sight.words(r"Select (-?\d+) with")
    while (shown := int(sight.all("spinbutton")[0].value)) != int(value):
        yield sight.click("button", "Increase" if shown < int(value) else "Decrease")
    yield sight.click("button", "Submit")


@player("use-autocomplete", "use-autocomplete-nodelay")
def complete(sight: Sight) -> Solution:
    """Type the beginning and click a suggestion with the right end."""
    match = re.search(r'starts with "(.+?)"(?: and ends with "(.+?)")?', sight.instruction)
    assert match is not None
    yield sight.type(match[1])
    yield click(next(node for text, node in _suggestions(sight) if text.endswith(match[2] or "")))
    yield sight.click("button", "Submit")


@player("book-flight", "book-flight-nodelay")
def book_flight(sight: Sight) -> Solution:
    """Search for flights from suggested airports on a day of the calendar, and book the cheapest or shortest one."""
    which, origin, destination, date = sight.words(r"the (\w+) one-way flight from: (.+) to: (.+) on ([\d/]+)")
    for place, airport in enumerate((origin, destination)):
        # Suggestions may appear under the mouse, so that the click takes another one; then try again.
        while not re.search(rf"{re.escape(airport)}.*\)$", sight.all("textbox")[place].value):
            yield sight.type(airport, nth=place)
            yield click(next(node for text, node in _suggestions(sight) if airport in text))
    yield sight.click("textbox", nth=2)
    yield from _pick_day(sight, datetime.strptime(date, "%m/%d/%Y"))
    yield sight.click("button", "Search")
    offers = [node for node in sight.all("button") if "$" in node.name]
    values = _durations(sight) if which == "shortest" else [int(node.name.partition("$")[2]) for node in offers]
    yield click(offers[values.index(min(values))])


@player("odd-or-even")
def mark_numbers(sight: Sight) -> Solution:
    """Mark every number as odd or even and submit."""
    numbers = [int(node.value) for node in sight.look().nodes if re.fullmatch(r"-?\d+", node.value)]
    for place, value in enumerate(numbers):
        yield sight.click("button", "Odd" if value % 2 else "Even", nth=place)
    yield sight.click("button", "Submit")


@player("generate-number")
def generate_until_right(sight: Sight) -> Solution:
    """Generate numbers until one fits, then submit."""
    relation, limit = sight.words(r"(less than|greater than|even|odd)\s*(\d*)")
    fits = {
        "less than": lambda value: value < int(limit),
        "greater than": lambda value: value > int(limit),
        "even": lambda value: value % 2 == 0,
        "odd": lambda value: value % 2 == 1,
    }[relation]
    while True:
        numbers = [int(node.value) for node in sight.look().nodes if re.fullmatch(r"\d+", node.value)]
        if numbers and fits(numbers[0]):
            break
        yield sight.click("button", "Generate")
    yield sight.click("button", "Submit")


@player("order-food")
def order_food(sight: Sight) -> Solution:
    """Add the named dishes, or some of a kind, and order."""
    menu = _menu(sight)
    if match := re.search(r"Order one of each item: (.+)", sight.instruction):
        places = [place for place, (dish, _) in enumerate(menu) if dish in match[1].split(", ")]
    else:
        count, kind = sight.words(r"Order (\d+) items? that are (\S+)")
        places = [place for place, (_, kinds) in enumerate(menu) if kind in kinds][:1] * int(count)
    for place in places:
        yield sight.click("button", "+", nth=place)
    yield sight.click("button", "Order!")


@player("buy-ticket")
def buy_ticket(sight: Sight) -> Solution:
    """Buy the cheapest, most expensive, shortest or longest ticket."""
    which, what = sight.words(r"the ((?:most )?\w+) (cost|price|duration)")
    if what == "duration":
        values = _durations(sight)
    else:
        values = [int(node.name.partition("$")[2]) for node in sight.all("button")]
    best = max if which in ("longest", "highest", "most expensive") else min
    yield sight.click("button", nth=values.index(best(values)))


def _pick_day(sight: Sight, date: datetime) -> Solution:
    """Turn an open calendar to the month and click the day."""
    while True:
        month = datetime.strptime(_month_shown(sight), "%B %Y")
        if (month.year, month.month) == (date.year, date.month):
            break
        later = (month.year, month.month) < (date.year, date.month)
        yield sight.click("button", "Next" if later else "Prev")
    yield sight.click("link", str(date.day))


def _suggestions(sight: Sight) -> list[tuple[str, ViewNode]]:
    """Return the text and the element of each suggestion for what was typed."""
    view = sight.look()
    return [(view.text_of(place), node) for place, node in enumerate(view.nodes) if node.role == "listitem"]


def _durations(sight: Sight) -> list[int]:
    """Return the shown durations in minutes."""
    texts = [node.value for node in sight.look().nodes if re.search(r"\d+h \d+m", node.value)]
    return [int(h) * 60 + int(m) for h, m in re.findall(r"(\d+)h (\d+)m", " ".join(texts))]


def _month_shown(sight: Sight) -> str:
    return next(line.strip() for line in sight.look().lines if re.fullmatch(r"[A-Z][a-z]+ \d{4}", line.strip()))


def _menu(sight: Sight) -> list[tuple[str, list[str]]]:
    """Return the dishes in order, each with the kinds that its pictures show."""
    menu: list[tuple[str, list[str]]] = []
    text = ""
    for node in sight.look().nodes:
        if node.role == "img":
            menu[-1][1].append(node.name)
        elif node.name == "-":
            continue
        elif node.value and node.value != text:
            text = node.value
            menu.append((text, []))
    return [(dish, kinds) for dish, kinds in menu if kinds]
