"""The text of single cells."""

import unicodedata


def display_width(text):
    """Return how many columns a text takes in a terminal: wide characters take two, combining ones none."""
    width = 0
    for character in text:
        if unicodedata.combining(character):
            continue
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return width


def fit(text, width, align="left"):
    """Return the text padded to a width; longer text stays as it is."""
    room = width - display_width(text)
    if room <= 0:
        return text
    if align == "right":
        return " " * room + text
    if align == "center":
        left = room // 2
        return " " * left + text + " " * (room - left)
    return text + " " * room


def wrap(text, width):
    """Return the lines of a text, none wider than `width`; words are cut only if they do not fit a line."""
    if width < 1:
        raise ValueError(f"width must be at least 1, not {width!r}")
    lines = []
    for paragraph in text.split("\n"):
        lines += _wrap_paragraph(paragraph, width)
    return lines


def _wrap_paragraph(text, width):
    lines = []
    current = ""
    for word in text.split():
        candidate = f"{current} {word}" if current else word
        if display_width(candidate) <= width:
            current = candidate
            continue
        if current:
            lines.append(current)
        while display_width(word) > width:
            piece = _cut(word, width)
            lines.append(piece)
            word = word[len(piece) :]
        current = word
    if current or not lines:
        lines.append(current)
    return lines


def _cut(word, width):
    """Return the longest beginning of a word that fits; at least one character."""
    taken = 1
    while taken < len(word) and display_width(word[: taken + 1]) <= width:
        taken += 1
    return word[:taken]


def is_number(value):
    """Whether a value is a number and not a truth value."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def format_value(value, spec=None, *, missing=""):
    """Return the text of a value; `spec` is a format specification or a function."""
    if value is None:
        return missing
    if callable(spec):
        return str(spec(value))
    if spec is not None and is_number(value):
        return format(value, spec)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
