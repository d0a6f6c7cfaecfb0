"""Tables from text."""

import csv
import io

from gridtext.errors import TableError
from gridtext.table import Table


def convert(text):
    """Return a number if the text is one, `None` if it is empty, else the text."""
    text = text.strip()
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text.replace(",", "")) if _plain(text) else text
        except ValueError:
            continue
    return text


def _plain(text):
    """Whether commas, if any, stand between groups of three digits."""
    whole, *groups = text.lstrip("+-").split(".")[0].split(",")
    return whole.isdecimal() and all(len(group) == 3 and group.isdecimal() for group in groups)


def read_csv(text, *, delimiter=",", typed=True):
    """Read a table from CSV with a header; lines that are empty are left out."""
    lines = [line for line in csv.reader(io.StringIO(text), delimiter=delimiter) if line]
    if not lines:
        raise TableError("there is no header")
    header, *rows = lines
    table = Table([name.strip() for name in header])
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise TableError(f"row {number} has {len(row)} cells, not {len(header)}")
        table.add([convert(cell) for cell in row] if typed else row)
    return table


def read_markdown(text):
    """Read the first Markdown table of a text. Raises `TableError` if there is none."""
    lines = text.splitlines()
    for number, line in enumerate(lines[1:], start=1):
        if _is_rule(line) and "|" in lines[number - 1]:
            table = Table(_split(lines[number - 1]))
            for row in lines[number + 1 :]:
                if "|" not in row:
                    break
                cells = [convert(cell) for cell in _split(row)][: len(table.columns)]
                table.add(cells + [None] * (len(table.columns) - len(cells)))
            return table
    raise TableError("there is no Markdown table")


def _is_rule(line):
    cells = _split(line)
    return "|" in line and all(cell.strip(":") and not cell.strip(":").strip("-") for cell in cells)


def _split(line):
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip().replace("\0", "|") for cell in inner.replace("\\|", "\0").split("|")]
