"""Converts actions of Gymnasium spaces to and from the arguments of a tool."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from agentgym.base.errors import UsageError, require

_LISTED = 64
"""Maximum size of a range whose numbers are listed one by one."""
_MOST_CHARACTERS = 100
"""Maximum size of an alphabet that the description lists."""
_MOST_NUMBERS = 64
"""Maximum number of entries of a Box that a model could write."""

Schema = dict[str, Any]


@dataclass(frozen=True)
class ArgumentForm:
    """The JSON representation of a space's values."""

    schema: Schema
    read: Callable[[Any], Any]
    """Turns the JSON value into one for the space."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of the tool `act`: a single `action`, or the parts of a Dict or Tuple space."""

    space: spaces.Space[Any]
    names: Sequence[str] | None = None
    """Names of the actions of a Discrete space."""

    @property
    def schema(self) -> Schema:
        """The JSON schema of the arguments."""
        parts = {name: form.schema for name, form in self._forms.items()}
        return {"type": "object", "properties": parts, "required": list(parts), "additionalProperties": False}

    def read(self, arguments: Mapping[str, Any]) -> Any:
        """Return the action that the arguments represent. It may lie outside of the space.

        Raises:
            OverflowError: A number is too large for the type of the space.
        """
        values = {name: form.read(arguments[name]) for name, form in self._forms.items()}
        if isinstance(self.space, spaces.Dict):
            return values
        return tuple(values.values()) if isinstance(self.space, spaces.Tuple) else values["action"]

    @property
    def _forms(self) -> Mapping[str, ArgumentForm]:
        if isinstance(self.space, spaces.Dict):
            return {name: form_of(part, name) for name, part in self.space.spaces.items()}
        if isinstance(self.space, spaces.Tuple):
            return {f"action_{i}": form_of(part, f"action_{i}") for i, part in enumerate(self.space.spaces, start=1)}
        return {"action": form_of(self.space, "action", self.names)}


def form_of(space: spaces.Space[Any], where: str, names: Sequence[str] | None = None) -> ArgumentForm:
    """Return the JSON representation of a space's values.

    Args:
        space: The space.
        where: The argument, for the message.
        names: Names of the values of a Discrete space.

    Raises:
        UsageError: The space is not supported, or the number of names is wrong.
    """
    if names is not None:
        return _named(space, names)
    for kind, make in _MAKERS.items():
        if isinstance(space, kind):
            return make(space, where)
    supported = ", ".join(kind.__name__ for kind in _MAKERS)
    raise UsageError(f"{where}: a model cannot write values of {space}; these spaces work: {supported}")


def _named(space: spaces.Space[Any], names: Sequence[str]) -> ArgumentForm:
    if not isinstance(space, spaces.Discrete) or len({*names}) != space.n:
        raise UsageError(f"{len({*names})} different names of actions do not fit the action space {space}")
    values = {name: space.dtype.type(space.start + place) for place, name in enumerate(names)}
    return ArgumentForm({"type": "string", "enum": list(names), "description": "What to do."}, values.__getitem__)


def _discrete(space: spaces.Discrete, where: str) -> ArgumentForm:
    first, last = int(space.start), int(space.start + space.n - 1)
    return ArgumentForm(
        {**_integers(first, last), "description": f"A number from {first} to {last}."}, space.dtype.type
    )


def _multi_discrete(space: spaces.MultiDiscrete, where: str) -> ArgumentForm:
    if space.nvec.ndim != 1:
        raise UsageError(f"{where}: a model cannot write values of {space}; it has more than one dimension")
    first, last = [int(low) for low in space.start], [int(high) for high in space.start + space.nvec - 1]
    ranges = ", ".join(f"{low} to {high}" for low, high in zip(first, last, strict=True))
    schema = _list_of(_integers(min(first), max(last)), len(first), f"{len(first)} numbers: {ranges}.")
    return ArgumentForm(schema, lambda value: np.asarray(value, dtype=space.dtype))


def _multi_binary(space: spaces.MultiBinary, where: str) -> ArgumentForm:
    if len(space.shape) != 1:
        raise UsageError(f"{where}: a model cannot write values of {space}; it has more than one dimension")
    schema = _list_of({"type": "integer", "enum": [0, 1]}, space.shape[0], f"{space.shape[0]} times 0 or 1.")
    return ArgumentForm(schema, lambda value: np.asarray(value, dtype=space.dtype))


def _box(space: spaces.Box, where: str) -> ArgumentForm:
    if (size := int(np.prod(space.shape))) > _MOST_NUMBERS:
        raise UsageError(f"{where}: a model cannot write values of {space}: {size} numbers, at most {_MOST_NUMBERS}")
    # Python's own numbers, since a float cannot hold the bounds of 64-bit integers.
    low, high = (space.low.min().item(), space.high.max().item()) if size else (0, 0)
    schema: Schema = {"type": "integer" if np.issubdtype(space.dtype, np.integer) else "number"}
    schema |= {key: bound for key, bound in (("minimum", low), ("maximum", high)) if np.isfinite(bound)}
    for count in reversed(space.shape):
        schema = _list_of(schema, count, "")
    bounds = " to ".join(f"{bound:g}" if isinstance(bound, float) else str(bound) for bound in (low, high))
    text = f"{'A number' if not space.shape else f'Numbers of shape {list(space.shape)}'} from {bounds}."
    return ArgumentForm({**schema, "description": text}, lambda value: _finite(value, space.dtype))


def _finite(value: Any, dtype: Any) -> Any:
    """Return numbers as an array. Raises `OverflowError` if one is too large for its type."""
    with np.errstate(over="ignore"):
        array = np.asarray(value, dtype=dtype)
    if not np.isfinite(array).all():
        raise OverflowError("a number is too large")
    return array


def _text(space: spaces.Text, where: str) -> ArgumentForm:
    schema = {"type": "string", "minLength": space.min_length, "maxLength": space.max_length}
    allowed = f" of these: {''.join(space.character_list)}" if len(space.character_list) <= _MOST_CHARACTERS else ""
    text = f"A text of {space.min_length} to {space.max_length} characters{allowed}"
    return ArgumentForm({**schema, "description": f"{text}."}, str)


def _dict(space: spaces.Dict, where: str) -> ArgumentForm:
    forms = {name: form_of(part, f"{where}.{name}") for name, part in space.spaces.items()}
    properties = {name: form.schema for name, form in forms.items()}
    schema = {"type": "object", "properties": properties, "required": list(forms), "additionalProperties": False}
    return ArgumentForm(
        {**schema, "description": f"Values for {', '.join(forms)}."},
        lambda value: {name: form.read(value[name]) for name, form in forms.items()},
    )


def _tuple(space: spaces.Tuple, where: str) -> ArgumentForm:
    forms = [form_of(part, f"{where}[{place}]") for place, part in enumerate(space.spaces)]
    schema = {"type": "array", "prefixItems": [form.schema for form in forms]}
    count = len(forms)
    return ArgumentForm(
        {**schema, "minItems": count, "maxItems": count, "description": f"A list of {count} values."},
        lambda value: tuple(form.read(item) for form, item in zip(forms, value, strict=True)),
    )


def _integers(first: int, last: int) -> Schema:
    if last - first < _LISTED:
        return {"type": "integer", "enum": list(range(first, last + 1))}
    return {"type": "integer", "minimum": first, "maximum": last}


def _list_of(items: Schema, count: int, description: str) -> Schema:
    schema = {"type": "array", "items": items, "minItems": count, "maxItems": count}
    return {**schema, "description": description} if description else schema


_MAKERS: Mapping[type[spaces.Space[Any]], Callable[[Any, str], ArgumentForm]] = {
    spaces.Discrete: _discrete,
    spaces.MultiDiscrete: _multi_discrete,
    spaces.MultiBinary: _multi_binary,
    spaces.Box: _box,
    spaces.Text: _text,
    spaces.Dict: _dict,
    spaces.Tuple: _tuple,
}


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
