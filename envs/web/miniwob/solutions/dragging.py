"""Players of MiniWoB++ pages where something must be dragged."""

from __future__ import annotations

import re
from math import cos, pi, sin

from agentgym.core.engine.steps import Solution
from agentgym.core.messages import ToolCall
from agentgym.envs.web.miniwob.solutions.registry import Place, Sight, drag, number, place_of, player, press
from agentgym.tools.browser import ViewNode

_WAYS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
_FAR_PX = 20
_RADIUS_PX = 22
_SIDES = {"rectangles": "rect", "circles": "circle", "triangles": "polygon"}
_IN_SIGHT_PX, _CALENDAR_PX = 90, 156
"""A place in the visible part of the calendar, and the height of that part."""
_CELLS = {"top": 0, "center": 1, "bottom": 2, "left": 0, "right": 2}


@player("drag-box")
def drag_into_box(sight: Sight) -> Solution:
    """Drag the small box into the large one and submit."""
    small, large = sorted((place_of(node) for node in sight.shapes()), key=lambda place: place.width)
    yield _move(small, large)
    yield sight.click("button", "Submit")


@player("drag-circle", "drag-single-shape")
def drag_shape(sight: Sight) -> Solution:
    """Drag the shape in a direction and submit."""
    (way,) = sight.words(r"(left|right|up|down)")
    shape, (right, down) = place_of(sight.shapes()[0]), _WAYS[way]
    yield drag(shape.x, shape.y, shape.x + _FAR_PX * right, shape.y + _FAR_PX * down)
    yield sight.click("button", "Submit")


@player("drag-shapes", "drag-shapes-2")
def sort_shapes(sight: Sight) -> Solution:
    """Drag the shapes of a form or colour into the first box, all others into the second if there is one; submit."""
    boxes = sorted((place_of(node) for node in sight.shapes("-outlined rect")), key=lambda place: place.x)
    (what,) = sight.words(r"Drag all (\w+)")
    for shape in [node for node in sight.shapes() if "-outlined" not in node.name]:
        colour, form, *_ = shape.name.split()
        if _SIDES.get(what, what) in (colour, form):
            yield _move(place_of(shape), boxes[0])
        elif len(boxes) > 1:
            yield _move(place_of(shape), boxes[1])
    yield sight.click("button", "Submit")


@player("drag-items")
def move_in_list(sight: Sight) -> Solution:
    """Drag an item of a list to its new position."""
    name, where = sight.words(r"Drag (\S+) (.+)\.")
    items = sight.shapes()
    start = _index(items, name)
    moves = {"to the top": 0, "to the bottom": len(items) - 1}
    moves |= {"up by one position": start - 1, "down by one position": start + 1}
    end = moves[where] if where in moves else number(where)
    yield _reorder(items, start, end)


@player("drag-items-grid")
def move_in_grid(sight: Sight) -> Solution:
    """Drag an item of a grid of three columns to its new position."""
    name, where = sight.words(r"Drag (\S+) (.+)\.")
    items = sight.shapes()
    start = _index(items, name)
    row, column = divmod(start, 3)
    if "by one" in where:
        right, down = _WAYS[where.split()[0]]
        row, column = row + down, column + right
    else:
        words = where.split()[2:]
        row = _CELLS[words[0]]
        column = _CELLS[words[-1]]
    yield _reorder(items, start, 3 * row + column)


@player("drag-sort-numbers")
def sort_numbers(sight: Sight) -> Solution:
    """Drag the numbers into order, the least first, and submit."""
    for place in range(len(sight.shapes())):
        items = sight.shapes()
        values = [int(node.name.split(",")[0]) for node in items]
        least = min(range(place, len(values)), key=values.__getitem__)
        if least != place:
            yield _reorder(items, least, place)
    yield sight.click("button", "Submit")


@player("draw-line")
def draw_line(sight: Sight) -> Solution:
    """Draw a straight line through the dot and submit."""
    (way,) = sight.words(r"a (horizontal|vertical) line")
    dot = place_of(sight.shapes("circle")[0])
    right, down = (2 * _RADIUS_PX, 0) if way == "horizontal" else (0, 2 * _RADIUS_PX)
    yield drag(dot.x - right, dot.y - down, dot.x + right, dot.y + down)
    yield sight.click("button", "Submit")


@player("draw-circle")
def draw_circle(sight: Sight) -> Solution:
    """Draw a circle around the dot and submit."""
    dot = place_of(sight.shapes("circle")[0])
    turns = [2 * pi * step / 16 for step in range(17)]
    points = [[round(dot.x + _RADIUS_PX * cos(turn)), round(dot.y + _RADIUS_PX * sin(turn))] for turn in turns]
    first, *through = points
    yield ToolCall("drag", {"x1": first[0], "y1": first[1], "x2": first[0], "y2": first[1], "through": through})
    yield sight.click("button", "Submit")


@player("resize-textarea")
def resize(sight: Sight) -> Solution:
    """Drag the corner of the text area and submit."""
    dimension, size = sight.words(r"the (width|height) is (smaller|larger)")
    handle = place_of(sight.shapes("handle")[0])
    far = _FAR_PX if size == "larger" else -_FAR_PX
    right, down = (far, 0) if dimension == "width" else (0, far)
    yield drag(handle.x, handle.y, handle.x + right, handle.y + down)
    yield sight.click("button", "Submit")


@player("daily-calendar")
def create_event(sight: Sight) -> Solution:
    """Drag over free half-hours between two hours, and name the event."""
    length, unit, name, start, end = sight.words(r'a ([\d.]+) (\w+) event named "(.+)", between (\w+) and (\w+)')
    count = round(float(length) * (2 if unit.startswith("hour") else 1 / 30))
    slots = _free_run(sight, start.lower(), end.lower(), count)
    screens = round((place_of(slots[0]).y - _IN_SIGHT_PX) / _CALENDAR_PX, 2)
    yield ToolCall("scroll", {"direction": "down", "ref": slots[0].ref, "screens": screens})
    slots = _free_run(sight, start.lower(), end.lower(), count)
    first, last = place_of(slots[0]), place_of(slots[-1])
    yield drag(first.x, first.y - 2, last.x, last.y + 2)
    yield sight.type(name)
    yield sight.click("button", "Create")


@player("use-slider")
def move_slider(sight: Sight) -> Solution:
    """Find out the range of the slider, drag its handle, correct with keys and submit."""
    (value,) = sight.words(r"Select (-?\d+) with")
    yield sight.click("slider")
    bounds = []
    for key in ("Home", "End"):
        yield press(key)
        bounds.append(_values(sight)[0])
    yield from _slide(sight, 0, int(value), *bounds)
    yield sight.click("button", "Submit")


@player("use-slider-2")
def move_sliders(sight: Sight) -> Solution:
    """Set three sliders and submit."""
    values = sight.words(r"\[(\d+),(\d+),(\d+)\]")
    for place, value in enumerate(values):
        yield from _slide(sight, place, int(value), 0, 20)
    yield sight.click("button", "Submit")


@player("form-sequence")
def slide_and_tick(sight: Sight) -> Solution:
    """Set the slider, tick a box and submit."""
    value, box = sight.words(r"Select (-?\d+) with the slider, click the (\w+) checkbox")
    yield from _slide(sight, 0, int(value), -10, 10)
    yield sight.click("checkbox", nth=number(box))
    yield sight.click("button", "Submit")


def _slide(sight: Sight, place: int, value: int, low: int, high: int) -> Solution:
    """Drag the handle of a slider to a value; correct with keys, which the handle receives after the drag."""
    if _values(sight)[place] == value:
        return
    track, handle = (place_of(sight.shapes(name)[place]) for name in ("track", "handle"))
    share = (value - low) / (high - low)
    if track.width > track.height:
        yield drag(handle.x, handle.y, track.x + (share - 0.5) * track.width, handle.y)
    else:
        yield drag(handle.x, handle.y, handle.x, track.y + (0.5 - share) * track.height)
    while (shown := _values(sight)[place]) != value:
        yield press("ArrowRight" if shown < value else "ArrowLeft")


def _values(sight: Sight) -> list[int]:
    return [int(node.value) for node in sight.look().nodes if re.fullmatch(r"-?\d+", node.value)]


def _free_run(sight: Sight, start: str, end: str, count: int) -> list[ViewNode]:
    """Return `count` half-hours in a row between two hours whose middles no event covers."""
    events = [place_of(node) for node in sight.shapes("event ")]
    hour, run = "", list[ViewNode]()
    inside = False
    for node in sight.look().nodes:
        if re.fullmatch(r"\d+(am|pm)", node.value):
            hour = node.value
            inside = (inside or hour == start) and hour != end
        elif inside and node.role == "button" and " at " in node.name:
            slot = place_of(node)
            covered = any(abs(event.y - slot.y) < event.height / 2 for event in events)
            run = [] if covered else [*run, node]
            if len(run) == count:
                return run
    raise LookupError(f"no {count} free half-hours from {start} to {end}")


def _index(items: list[ViewNode], name: str) -> int:
    return [node.name.split(",")[0] for node in items].index(name)


def _reorder(items: list[ViewNode], start: int, end: int) -> ToolCall:
    """Return the drag of an item just beyond the middle of the one whose position it takes."""
    moved, other = place_of(items[start]), place_of(items[end])
    beyond = _sign(other.y - moved.y) * 3
    return drag(moved.x, moved.y, other.x + _sign(other.x - moved.x) * 3, other.y + beyond)


def _sign(difference: int) -> int:
    return (difference > 0) - (difference < 0)


def _move(shape: Place, to: Place) -> ToolCall:
    return drag(shape.x, shape.y, to.x, to.y)
