"""Observations of Gymnasium environments as text and pictures."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from agentgym.errors import require

_STYLED = re.compile(r"\x1b\[([0-9;]+)m(.*?)\x1b\[0m", re.S)
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def is_picture(space: spaces.Space[Any]) -> bool:
    """Whether observations of a space are pictures: bytes of shape height, width and 1, 3 or 4 colours."""
    return (
        isinstance(space, spaces.Box)
        and space.dtype == np.uint8
        and len(space.shape) == 3
        and space.shape[2] in (1, 3, 4)
    )


def png_of(picture: Any) -> bytes:
    """Return an array of bytes (height, width, colours) as a PNG file. Raises `MissingExtra` without Pillow."""
    require("PIL", "data")
    from PIL import Image

    pixels = np.asarray(picture, dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(file, "PNG")
    return file.getvalue()


def plain_text(rendered: str) -> str:
    """Return rendered text without colours: a coloured background becomes `[X]`, coloured letters `X(blue)`.

    Toy environments mark positions only by colour.
    """
    return _ESCAPE.sub("", _STYLED.sub(_marked, rendered)).strip("\n")


def _marked(match: re.Match[str]) -> str:
    styles = [int(style) for style in match[1].split(";") if style]
    if any(40 <= style < 48 for style in styles):
        return f"[{match[2]}]"
    colour = next((_COLOURS[style - 30] for style in styles if 30 <= style < 38), None)
    return match[2] if colour is None else f"{match[2]}({colour})"


def text_of_value(value: Any) -> str:
    """Return an observation as text: numbers with 4 significant digits, one line per entry of a Dict."""
    if isinstance(value, Mapping):
        return "\n".join(f"{name}: {text_of_value(item)}" for name, item in value.items())
    if isinstance(value, tuple):
        return f"({', '.join(map(text_of_value, value))})"
    return value if isinstance(value, str) else _numbers(np.asarray(value).tolist())


def _numbers(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_numbers, value))}]"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
