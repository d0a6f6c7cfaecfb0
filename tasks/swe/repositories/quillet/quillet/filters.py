"""Filters: functions that change a value before it is written."""

import html


def default(value, other=""):
    """Return `other` in place of nothing: `None` or an empty text."""
    return other if value is None or value == "" else value


def join(value, separator=", "):
    """Return the items as one text."""
    return separator.join(str(item) for item in value)


def truncate(value, length=20, end="..."):
    """Return at most `length` characters, cut at a word where possible."""
    text = str(value)
    if len(text) <= length:
        return text
    room = length - len(end)
    cut = text[:room]
    if text[room] != " " and " " in cut:
        cut = cut[: cut.rindex(" ")]
    return cut.rstrip() + end


def indent(value, width=4, first=False):
    """Return the lines moved to the right; the first one only if asked for, empty ones never."""
    pad = " " * width
    lines = str(value).split("\n")
    moved = [pad + line if line.strip() else line for line in lines]
    if not first:
        moved[0] = lines[0]
    return "\n".join(moved)


def number(value, digits=0):
    """Return a number with digits after the point and commas between thousands."""
    return f"{value:,.{digits}f}"


def plural(value, one="", many="s"):
    """Return the ending for a count, or for the length of a list."""
    count = value if isinstance(value, int) else len(value)
    return one if count == 1 else many


def escape(value):
    """Return text in which nothing is HTML."""
    return html.escape(str(value))


FILTERS = {
    "default": default,
    "escape": escape,
    "first": lambda value: value[0] if value else None,
    "indent": indent,
    "join": join,
    "last": lambda value: value[-1] if value else None,
    "length": len,
    "lower": lambda value: str(value).lower(),
    "number": number,
    "plural": plural,
    "sort": sorted,
    "title": lambda value: str(value).title(),
    "trim": lambda value: str(value).strip(),
    "truncate": truncate,
    "upper": lambda value: str(value).upper(),
}
