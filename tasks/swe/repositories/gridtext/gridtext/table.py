"""Tables."""

from gridtext.cells import display_width, fit, format_value, is_number, wrap
from gridtext.errors import TableError
from gridtext.styles import get_style


class Table:
    """Rows with named columns.

    Args:
        columns: Names of the columns.
        rows: Lists of values, or dictionaries by column.
    """

    def __init__(self, columns, rows=()):
        self.columns = list(columns)
        if len(set(self.columns)) < len(self.columns):
            raise TableError(f"a column's name appears twice: {self.columns}")
        self.rows = []
        for row in rows:
            self.add(row)

    def add(self, row):
        """Add a row. Raises `TableError` if it does not fit the columns."""
        if isinstance(row, dict):
            unknown = [name for name in row if name not in self.columns]
            if unknown:
                raise TableError(f"unknown columns: {', '.join(map(str, unknown))}")
            row = [row.get(name) for name in self.columns]
        if len(row) != len(self.columns):
            raise TableError(f"row has {len(row)} cells, not {len(self.columns)}")
        self.rows.append(list(row))

    def column(self, name):
        """Return the values of a column."""
        place = self._place(name)
        return [row[place] for row in self.rows]

    def select(self, *names):
        """Return a table with some of the columns, in the given order."""
        places = [self._place(name) for name in names]
        return Table(names, [[row[place] for place in places] for row in self.rows])

    def where(self, test):
        """Return a table with the rows for which a function of the row, as a dictionary, is true."""
        return Table(self.columns, [row for row in self.rows if test(dict(zip(self.columns, row)))])

    def sort(self, *names, reverse=False):
        """Return a table sorted by columns; missing values come last."""
        places = [self._place(name) for name in names]
        full = [row for row in self.rows if all(row[place] is not None for place in places)]
        rest = [row for row in self.rows if any(row[place] is None for place in places)]
        full.sort(key=lambda row: [row[place] for place in places], reverse=reverse)
        return Table(self.columns, full + rest)

    def transpose(self, header=""):
        """Return the table with rows and columns exchanged; the first column becomes the header."""
        names = [header or self.columns[0], *(str(row[0]) for row in self.rows)]
        return Table(names, [[name, *self.column(name)] for name in self.columns[1:]])

    def render(self, *, style="plain", formats=None, align=None, max_width=None, missing="", header=True):
        """Return the table as text.

        Args:
            style: A style or its name.
            formats: Column to format specification or function.
            align: Column to `left`, `right` or `center`; numbers are right-aligned by default.
            max_width: Widest that a column may be; longer cells are wrapped.
            missing: Text for `None`.
            header: Whether the names of columns are shown.
        """
        style = get_style(style)
        formats, chosen = formats or {}, align or {}
        for name in [*formats, *chosen]:
            self._place(name)
        aligns = [chosen.get(name) or self._default_align(name) for name in self.columns]
        head = [self._lines(str(name), max_width) for name in self.columns]
        body = [
            [
                self._lines(format_value(value, formats.get(name), missing=missing), max_width)
                for name, value in zip(self.columns, row)
            ]
            for row in self.rows
        ]
        shown = [head, *body] if header else body
        widths = [
            max((display_width(line) for row in shown for line in row[place]), default=0)
            for place in range(len(self.columns))
        ]
        if style.marks_alignment:
            widths = [max(width, 3) for width in widths]
        return "\n".join(self._draw(style, head if header else None, body, widths, aligns))

    def _draw(self, style, head, body, widths, aligns):
        lines = [style.rule(style.top, widths, aligns)]
        if head is not None:
            lines += self._row(style, head, widths, aligns)
            lines.append(style.rule(style.below_header, widths, aligns))
        for number, row in enumerate(body):
            if number > 0:
                lines.append(style.rule(style.between_rows, widths, aligns))
            lines += self._row(style, row, widths, aligns)
        lines.append(style.rule(style.bottom, widths, aligns))
        return [line for line in lines if line is not None]

    @staticmethod
    def _row(style, cells, widths, aligns):
        height = max(len(lines) for lines in cells)
        padded = [lines + [""] * (height - len(lines)) for lines in cells]
        return [
            style.row([fit(lines[level], width, align) for lines, width, align in zip(padded, widths, aligns)])
            for level in range(height)
        ]

    @staticmethod
    def _lines(text, max_width):
        return text.split("\n") if max_width is None else wrap(text, max_width)

    def _default_align(self, name):
        values = [value for value in self.column(name) if value is not None]
        return "right" if values and all(is_number(value) for value in values) else "left"

    def _place(self, name):
        if name not in self.columns:
            raise TableError(f"no column {name!r}; there are: {', '.join(map(str, self.columns))}")
        return self.columns.index(name)

    def __len__(self):
        return len(self.rows)

    def __eq__(self, other):
        if not isinstance(other, Table):
            return NotImplemented
        return self.columns == other.columns and self.rows == other.rows
