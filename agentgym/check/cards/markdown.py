"""Pieces of Markdown that GitHub and MkDocs render alike."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_RUN = re.compile(r"`+")


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table. Cells may hold Markdown; line breaks are removed and bars escaped."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def code(text: object) -> str:
    """Return text as inline code."""
    longest = max((len(run) for run in _RUN.findall(str(text))), default=0)
    marks, space = "`" * (longest + 1), " " if longest else ""
    return f"{marks}{space}{text}{space}{marks}"


def codes(names: Iterable[object]) -> str:
    """Return names as inline code, separated by commas."""
    return ", ".join(map(code, names))


def block(text: str, language: str = "text") -> str:
    """Return a fenced block whose fence is longer than any in the text."""
    longest = max((len(run) for run in _RUN.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def folded(title: str, body: str) -> str:
    """Return a section that a click opens."""
    return f'<details markdown="1">\n<summary>{title}</summary>\n\n{body}\n\n</details>'


def number(value: float, digits: int = 2) -> str:
    """Return a number without trailing zeros."""
    text = f"{value:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text
