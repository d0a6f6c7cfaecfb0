"""Players of MiniWoB++ pages that ask to read or compute something."""

from __future__ import annotations

import re

from agentgym.core.engine.steps import Solution
from agentgym.envs.web.miniwob.solutions.registry import Sight, number, player
from agentgym.tools.browser import ViewNode


@player("text-transform")
def read_letters(sight: Sight) -> Solution:
    """Type the displayed letters."""
    letters = [node.value for node in sight.look().nodes if len(node.value) == 1]
    yield from _submit(sight, "".join(letters))


@player("simple-arithmetic")
def calculate(sight: Sight) -> Solution:
    """Compute a sum, difference or product."""
    left, sign, right = _found(sight, r"(-?\d+) ([-+x*]) (-?\d+) =")
    yield from _submit(sight, str(_value(int(left), sign, int(right))))


@player("simple-algebra")
def solve(sight: Sight) -> Solution:
    """Solve an equation for x."""
    left, sign, right, total = _found(sight, r"(x|-?\d+) ([-+]) (x|-?\d+) = (-?\d+)")
    if sign == "+":
        x = int(total) - int(right if left == "x" else left)
    else:
        x = int(total) + int(right) if left == "x" else int(left) - int(total)
    yield from _submit(sight, str(x))


@player("find-word")
def find_word(sight: Sight) -> Solution:
    """Type a word of the paragraph."""
    (place,) = sight.words(r"the (\w+) word")
    paragraph = next(node.value for node in sight.look().nodes if node.value and "Find the" not in node.value)
    yield from _submit(sight, re.sub(r"[^\w]", "", paragraph.split()[number(place)]))


@player("scroll-text")
def find_last_word(sight: Sight) -> Solution:
    """Type the last word of the area."""
    yield sight.type(sight.all("textbox")[0].value.split()[-1].strip(".,"), nth=1)
    yield sight.click("button", "Submit")


@player("read-table")
def read_table(sight: Sight) -> Solution:
    """Type the value of a row."""
    (label,) = sight.words(r"value of (.+) into")
    yield from _submit(sight, _rows(sight)[label])


@player("read-table-2")
def read_rows(sight: Sight) -> Solution:
    """Type the values of two rows next to their names."""
    rows = _rows(sight)
    labels = [node.value.rstrip(": ") for node in sight.look().nodes if node.value.rstrip().endswith(":")]
    for place, label in enumerate(labels):
        yield sight.type(rows[label], nth=place)
    yield sight.click("button", "Submit")


@player("guess-number")
def guess(sight: Sight) -> Solution:
    """Halve the range until the number is found."""
    low, high = 0, 9
    while low <= high:
        middle = (low + high) // 2
        yield sight.type(str(middle), role="spinbutton")
        yield sight.click("button", "Submit")
        text = sight.look().text
        low, high = (low, middle - 1) if "lower" in text else (middle + 1, high)


@player("count-shape")
def count_shapes(sight: Sight) -> Solution:
    """Count the shapes that fit a description."""
    (words,) = sight.words(r"How many (.+)s are there")
    count = sum(_fits(node, words) for node in sight.look().nodes if _is_shape(node))
    yield sight.click("button", str(count))


@player("count-sides")
def count_sides(sight: Sight) -> Solution:
    """Count the corners of the drawn shape."""
    line = next(node.name for node in sight.look().nodes if node.name.startswith("a line through "))
    yield sight.click("button", str(len(re.findall(r"\d+,\d+", line))))


@player("visual-addition")
def count_blocks(sight: Sight) -> Solution:
    """Type the number of blocks."""
    yield from _submit(sight, str(len([node for node in sight.look().nodes if node.name == "block"])))


@player("click-shape")
def click_shape(sight: Sight) -> Solution:
    """Click a shape that fits a description."""
    (words,) = sight.words(r"Click on an? (.+)")
    yield sight.click("img", next(node.name for node in sight.all("img") if _is_shape(node) and _fits(node, words)))


@player("identify-shape")
def name_shape(sight: Sight) -> Solution:
    """Click the name of the shape."""
    shape = next(node for node in sight.look().nodes if _is_shape(node))
    yield sight.click("button", _figure(shape))


def _submit(sight: Sight, text: str) -> Solution:
    yield sight.type(text)
    yield sight.click("button", "Submit")


def _found(sight: Sight, pattern: str) -> tuple[str, ...]:
    match = re.search(pattern, "\n".join(sight.look().lines))
    assert match is not None, sight.look().text
    return match.groups()


def _value(left: int, sign: str, right: int) -> int:
    return {"+": left + right, "-": left - right}.get(sign, left * right)


def _rows(sight: Sight) -> dict[str, str]:
    view = sight.look()
    rows = [index for index, node in enumerate(view.nodes) if node.role == "row"]
    cells = [[view.text_of(child) for child in view.children(row)] for row in rows]
    return {label.strip(): value.strip() for label, value in cells}


def _figure(shape: ViewNode) -> str:
    exact, kind = _kinds(shape)
    return {"digit": "Number", "letter": "Letter"}.get(kind, exact.capitalize())


_SHAPES = {"circle": "circle", "rect": "rectangle", "polygon": "triangle"}
_SMALL = 15
"""Shapes are 10 or 20 pixels high, letters a little more."""


def _is_shape(node: ViewNode) -> bool:
    return node.role == "img" and " at " in node.name


def _kinds(node: ViewNode) -> tuple[str, str]:
    """Return the exact shape and its kind."""
    _, kind, *rest = node.name.split()
    if kind == "text":
        return rest[0], "digit" if rest[0].isdecimal() else "letter"
    return _SHAPES[kind], "shape"


def _fits(node: ViewNode, words: str) -> bool:
    """Whether a shape matches a description such as `small red letter`."""
    height = int(re.findall(r"x(\d+) at", node.name)[0])
    size = "small" if height < _SMALL else "large"
    return all(word in (size, node.name.split()[0], *_kinds(node), "item") for word in words.split())
