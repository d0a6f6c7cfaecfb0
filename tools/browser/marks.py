"""Set-of-marks: draws boxes with refs onto a screenshot, without touching the page."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

from agentgym.errors import require
from agentgym.tools.browser.view import ViewNode

COLOURS = ("#c62828", "#1565c0", "#2e7d32", "#6a1b9a", "#b35900", "#00695c")
LABEL_HEIGHT = 12
LETTER_WIDTH = 6


def marked(image: bytes, nodes: Sequence[ViewNode]) -> bytes:
    """Return a PNG with a box and the ref on every visible node that has both."""
    require("PIL", "web")
    from PIL import Image, ImageDraw

    picture = Image.open(BytesIO(image)).convert("RGB")
    pen = ImageDraw.Draw(picture)
    for index, node in enumerate(nodes):
        place = _place(nodes, index)
        if not node.ref or place is None or place[0] >= picture.width or place[1] >= picture.height:
            continue
        left, top, right, bottom = place
        if right <= max(left, 0) or bottom <= max(top, 0):
            continue
        colour = COLOURS[index % len(COLOURS)]
        pen.rectangle((left, top, right, bottom), outline=colour)
        x, y = max(left, 0), max(top - LABEL_HEIGHT, 0)
        pen.rectangle((x, y, x + LETTER_WIDTH * len(node.ref) + 3, y + LABEL_HEIGHT), fill=colour)
        pen.text((x + 2, y), node.ref, fill="white")
    output = BytesIO()
    picture.save(output, "PNG", compress_level=1)
    return output.getvalue()


def _place(nodes: Sequence[ViewNode], index: int) -> tuple[int, int, int, int] | None:
    """Return left, top, right and bottom in the window; boxes inside a frame are relative to the frame."""
    box = nodes[index].box
    if box is None:
        return None
    left, top, width, height = box
    above = nodes[index].parent
    while above is not None:
        frame = nodes[above]
        if frame.role == "iframe" and frame.box is not None:
            left, top = left + frame.box[0], top + frame.box[1]
        above = frame.parent
    return left, top, left + width, top + height
