"""Tables as text."""

from gridtext.cells import display_width, fit, wrap
from gridtext.errors import StyleError, TableError
from gridtext.reading import read_csv, read_markdown
from gridtext.styles import STYLES, Style
from gridtext.summary import group_rows, pivot, totals
from gridtext.table import Table

__all__ = [
    "STYLES",
    "Style",
    "StyleError",
    "Table",
    "TableError",
    "display_width",
    "fit",
    "group_rows",
    "pivot",
    "read_csv",
    "read_markdown",
    "totals",
    "wrap",
]
__version__ = "2.0.3"
