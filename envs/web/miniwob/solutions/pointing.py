"""Players of MiniWoB++ pages that ask for points of a drawing."""

from __future__ import annotations

import re
from collections import Counter
from math import hypot

from agentgym.core.engine.steps import Solution
from agentgym.core.messages import ToolCall
from agentgym.envs.web.miniwob.solutions.registry import Place, Sight, click_at, place_of, player

_ARM_PX = 30
"""Length of a line to draw."""


@player("circle-center")
def mark_centre(sight: Sight) -> Solution:
    """Click the centre of the circle and submit."""
    yield from _mark(sight, *_middle(*_circles(sight, "white")))


@player("find-midpoint")
def mark_midpoint(sight: Sight) -> Solution:
    """Click halfway between the points and submit."""
    yield from _mark(sight, *_middle(*_circles(sight, "black")))


@player("bisect-angle")
def bisect_angle(sight: Sight) -> Solution:
    """Click where the bisector meets the line between the ends, which it divides as the arms' lengths, and submit."""
    (vertex,), (first, second) = _circles(sight, "blue"), _circles(sight, "black")
    lengths = [hypot(end.x - vertex.x, end.y - vertex.y) for end in (first, second)]
    share = lengths[0] / sum(lengths)
    yield from _mark(sight, first.x + share * (second.x - first.x), first.y + share * (second.y - first.y))


@player("right-angle")
def draw_right_angle(sight: Sight) -> Solution:
    """Click a point of the line through the blue point that is perpendicular to the drawn one, and submit."""
    (vertex,), (end,) = _circles(sight, "blue"), _circles(sight, "black")
    length = hypot(end.x - vertex.x, end.y - vertex.y)
    right, down = (vertex.y - end.y) / length, (end.x - vertex.x) / length
    centre_x, centre_y = 75, 115
    towards = 1 if right * (centre_x - vertex.x) + down * (centre_y - vertex.y) > 0 else -1
    yield from _mark(sight, vertex.x + towards * _ARM_PX * right, vertex.y + towards * _ARM_PX * down)


@player("ascending-numbers")
def click_in_order(sight: Sight) -> Solution:
    """Click the numbers in order; after the first click, they are hidden."""
    numbers = {int(node.value): place_of(node) for node in sight.shapes(" text ")}
    for number in sorted(numbers):
        yield click_at(numbers[number].x, numbers[number].y)


@player("hot-cold")
def find_hot_area(sight: Sight) -> Solution:
    """Move the mouse where the answers so far leave the fewest points, until it is hot; then click."""
    area = place_of(sight.shapes("area ")[0])
    left, top = area.x - area.width // 2, area.y - area.height // 2
    points = [(x, y) for x in range(left + 3, left + area.width - 3, 2) for y in range(top + 3, top + area.height, 2)]
    spots = points
    while True:
        x, y = _best_probe(points, spots)
        yield ToolCall("hover_at", {"x": x, "y": y})
        felt = re.search(r"ICE COLD|COLD|WARM|HOT(?! area)", "\n".join(sight.look().lines))
        if felt is None or felt[0] == "HOT":
            break
        spots = [spot for spot in spots if _felt(hypot(spot[0] - x, spot[1] - y)) == felt[0]] or spots
    yield click_at(x, y)


def _felt(distance: float) -> str:
    return "HOT" if distance < 5 else "WARM" if distance < 10 else "COLD" if distance < 40 else "ICE COLD"


def _best_probe(points: list[tuple[int, int]], spots: list[tuple[int, int]]) -> tuple[int, int]:
    """Return the point whose answer leaves the fewest of `spots` on average."""
    some = spots[:: max(1, len(spots) // 150)]

    def remaining(point: tuple[int, int]) -> float:
        counts = Counter(_felt(hypot(x - point[0], y - point[1])) for x, y in some)
        return sum(count**2 for answer, count in counts.items() if answer != "HOT")

    return min([*points[:: max(1, len(points) // 150)], *some], key=remaining)


def _circles(sight: Sight, colour: str) -> list[Place]:
    return [place_of(node) for node in sight.shapes(f"{colour} circle")]


def _middle(*places: Place) -> tuple[float, float]:
    return sum(place.x for place in places) / len(places), sum(place.y for place in places) / len(places)


def _mark(sight: Sight, x: float, y: float) -> Solution:
    """Click a point; click again if the page drew the point beside it; submit."""
    yield click_at(x, y)
    drawn = _circles(sight, "blue")[-1]
    if (drawn.x, drawn.y) != (round(x), round(y)):
        yield click_at(2 * round(x) - drawn.x, 2 * round(y) - drawn.y)
    yield sight.click("button", "Submit")
