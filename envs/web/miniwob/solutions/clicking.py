"""Players of MiniWoB++ pages that ask to find and click something."""

from __future__ import annotations

import re

from agentgym.core.engine.steps import Solution
from agentgym.core.messages import ToolCall, text_of
from agentgym.envs.web.miniwob.solutions.registry import Sight, click, number, player


@player("click-test")
def click_only_button(sight: Sight) -> Solution:
    """Click the only button."""
    yield sight.click("button")


@player("click-test-2", "click-test-transfer", "click-button-sequence")
def press_numbered_buttons(sight: Sight) -> Solution:
    """Press the buttons named in capitals, in turn; a covered one with a key."""
    for name in re.findall(r"button ([A-Z]+)", sight.instruction):
        observed = yield sight.click("button", name)
        if text_of(observed[-1]).startswith("Error"):
            while sight.all("button", name)[0] != sight.look().focused:
                yield ToolCall("press", {"key": "Tab"})
            yield ToolCall("press", {"key": "Enter"})


@player("click-button", "unicode-test")
def click_named_button(sight: Sight) -> Solution:
    """Click the named button."""
    (name,) = sight.words(r'"(.+)" button')
    yield sight.click("button", name)


@player("click-link")
def click_named_link(sight: Sight) -> Solution:
    """Click the named link."""
    (name,) = sight.words(r'link "(.+)"')
    yield sight.click("link", name)


@player("click-menu")
def walk_menu(sight: Sight) -> Solution:
    """Hover over the parents, which opens their menus, and click the last item: a click on a parent selects it."""
    (names,) = sight.words(r"Select (.+)")
    *parents, last = names.split(">")
    for name in parents:
        yield ToolCall("hover", {"ref": sight.all("menuitem", name)[0].ref})
    yield sight.click("menuitem", last)


@player("click-dialog")
def close_dialog(sight: Sight) -> Solution:
    """Close the dialog."""
    yield sight.click("button", "Close")


@player("click-dialog-2")
def click_in_dialog(sight: Sight) -> Solution:
    """Click a button of the dialog; the cross is called Close."""
    (name,) = sight.words(r'labeled "(.+)"')
    yield sight.click("button", "Close" if name == "x" else name)


@player("click-widget")
def click_widget(sight: Sight) -> Solution:
    """Click any element of the named kind."""
    (kind,) = sight.words(r'"(.+)" widget')
    if kind in ("text", "textarea"):
        yield sight.click("textbox", "" if kind == "text" else "text area")
    else:
        yield sight.click(kind)


@player("click-tab")
def click_tab(sight: Sight) -> Solution:
    """Click a tab."""
    (name,) = sight.words(r"(Tab #\d+)")
    yield sight.click("link", name)


@player("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard")
def find_in_tabs(sight: Sight) -> Solution:
    """Open the tabs in turn until the link is visible."""
    (name,) = sight.words(r'link "(.+)"')
    tabs = len(sight.all("tab"))
    for tab in range(tabs):
        if link := _links(sight, name):
            yield click(link)
            return
        yield click(_tab_links(sight)[(tab + 1) % tabs])
    yield sight.click("link", name)


@player("click-collapsible-2", "click-collapsible-2-nodelay")
def find_in_sections(sight: Sight) -> Solution:
    """Open the sections in turn until the link is visible."""
    (name,) = sight.words(r'link "(.+)"')
    for section in range(len(sight.all("tab"))):
        yield sight.click("tab", nth=section)
        if links := sight.all("link", name):
            yield click(links[0])
            return


@player("click-menu-2")
def find_in_menu(sight: Sight) -> Solution:
    """Open the menu, and its second level if needed, and click the item with the label or the icon."""
    label = re.search(r'labeled "(.+)"', sight.instruction)
    mark = label[1] if label else next(node.name for node in sight.look().nodes if node.name.startswith("icon "))
    yield sight.click("button", "Menu")
    if not _items(sight, mark):
        yield ToolCall("hover", {"ref": _items(sight, "Playback")[0].ref})
    yield click(_items(sight, mark)[-1])


@player("click-shades")
def click_shades(sight: Sight) -> Solution:
    """Click the boxes whose strongest part is the named colour, and submit."""
    (colour,) = sight.words(r"shades of (\w+)")
    strongest = ("red", "green", "blue").index(colour)
    for box in sight.all("button"):
        parts = [int(part) for part in re.findall(r"\d+", box.name)]
        if len(parts) == 3 and parts.index(max(parts)) == strongest:
            yield click(box)
    yield sight.click("button", "Submit")


@player("button-delay")
def click_after_delay(sight: Sight) -> Solution:
    """Click one button, wait, and click the other; each click takes a second."""
    (seconds,) = sight.words(r"wait (\d+) seconds")
    yield sight.click("button", "ONE")
    if int(seconds) > 1:
        yield ToolCall("wait", {"seconds": int(seconds) - 1})
    yield sight.click("button", "TWO")


@player("simon-says")
def repeat_sequence(sight: Sight) -> Solution:
    """Wait until all buttons have lit up, then click them in that order."""
    yield ToolCall("wait", {"seconds": 5})
    sequence = next(node.name for node in sight.look().nodes if node.name.startswith("lit up so far: "))
    for colour in sequence.partition(": ")[2].split(", "):
        yield sight.click("button", colour)


@player("stock-market")
def buy_cheap(sight: Sight) -> Solution:
    """Look at the price until it has fallen far enough, more often near the time of the price asked for, and buy."""
    (limit,) = sight.words(r"less than \$(\d+\.\d+)")
    for seconds in (0.9,) * 7 + (0.1,) * 5:
        match = re.search(r"\$(\d+\.\d+)", "\n".join(sight.look().lines).replace(sight.instruction, ""))
        if match is not None and float(match[1]) <= float(limit):
            break
        yield ToolCall("wait", {"seconds": seconds})
    yield sight.click("button", "Buy")


@player("click-pie")
def click_in_pie(sight: Sight) -> Solution:
    """Open the pie menu and click an item."""
    (name,) = sight.words(r'labeled "(.+)"')
    yield sight.click("button", "+")
    yield sight.click("button", name)


@player("click-collapsible", "click-collapsible-nodelay")
def open_and_submit(sight: Sight) -> Solution:
    """Open the section and submit."""
    yield sight.click("tab")
    yield sight.click("button", "Submit")


@player("click-color")
def click_colour(sight: Sight) -> Solution:
    """Click the box of a colour."""
    (colour,) = sight.words(r"the (\w+) colored box")
    yield sight.click("button", colour)


@player("grid-coordinate")
def click_on_grid(sight: Sight) -> Solution:
    """Click a point of the grid: columns from left to right, rows from the top."""
    x, y = sight.words(r"\((-?\d+),(-?\d+)\)")
    yield sight.click("button", nth=(int(x) + 2) * 5 + 2 - int(y))


@player("navigate-tree")
def find_in_tree(sight: Sight) -> Solution:
    """Open the folders in turn until the name is visible."""
    (name,) = sight.words(r'named "(.+)"')
    opened: set[str] = set()
    while True:
        entries = sight.all("button")
        if matches := [node for node in entries if node.name in (f"{name}, folder", f"{name}, file")]:
            yield click(matches[0])
            return
        folder = next(node for node in entries if node.name.endswith(", folder") and node.ref not in opened)
        opened.add(folder.ref)
        yield click(folder)


@player("find-greatest")
def pick_greatest(sight: Sight) -> Solution:
    """Pick the card with the greatest number."""
    cards = [node for node in sight.all("generic") if node.value.lstrip("-").isdecimal()]
    yield click(max(cards, key=lambda card: int(card.value)))
    yield sight.click("button", "Submit")


@player("phone-book")
def find_contact(sight: Sight) -> Solution:
    """Turn the pages to a contact, then click the requested detail."""
    name, detail = sight.words(r"Find (\S+) in .* their (phone|email|address)")
    while sight.look().find_all("heading", name) == []:
        yield sight.click("link", ">")
    yield sight.click("link", nth=("phone", "email", "address").index(detail))


@player("focus-text")
def focus_field(sight: Sight) -> Solution:
    """Click into the field."""
    yield sight.click("textbox")


@player("focus-text-2")
def focus_numbered_field(sight: Sight) -> Solution:
    """Click into the field of a number."""
    (place,) = sight.words(r"the (\w+) input")
    yield sight.click("textbox", nth=number(place))


def _items(sight: Sight, mark: str):
    """Return the items of a menu whose text or icon is `mark`."""
    view = sight.look()
    items = [(place, node) for place, node in enumerate(view.nodes) if node.role == "menuitem"]
    parts = {place: [view.nodes[child].label for child in view.children(place)] for place, _ in items}
    return [node for place, node in items if mark in (node.label, *parts[place])]


def _links(sight: Sight, name: str):
    return next((node for node in sight.all("link", name) if not node.url.startswith("#tabs")), None)


def _tab_links(sight: Sight):
    return [node for node in sight.all("link") if node.url.startswith("#tabs")]
