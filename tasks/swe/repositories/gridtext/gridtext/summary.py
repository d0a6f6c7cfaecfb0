"""Sums and groups."""

from gridtext.cells import is_number
from gridtext.errors import TableError
from gridtext.table import Table

_FUNCTIONS = {
    "sum": sum,
    "count": len,
    "min": min,
    "max": max,
    "mean": lambda values: sum(values) / len(values),
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
}


def totals(table, label="total"):
    """Return the table with a row of sums; the first column that is not summed gets the label."""
    sums = []
    labelled = False
    for name in table.columns:
        values = [value for value in table.column(name) if value is not None]
        if values and all(is_number(value) for value in values):
            sums.append(sum(values))
        elif not labelled:
            sums.append(label)
            labelled = True
        else:
            sums.append(None)
    return Table(table.columns, [*table.rows, sums])


def group_rows(table, by, **aggregates):
    """Return a table with one row for each value of a column, in the order in which they first appear.

    Args:
        table: The table.
        by: The column.
        aggregates: New column to (function's name, column), e.g. `spent=("sum", "price")`. `None` is left out.
    """
    groups = {}
    for value, row in zip(table.column(by), table.rows):
        groups.setdefault(value, []).append(row)
    rows = []
    for value, members in groups.items():
        part = Table(table.columns, members)
        rows.append([value, *(_aggregate(part, *spec) for spec in aggregates.values())])
    return Table([by, *aggregates], rows)


def pivot(table, rows, columns, values, function="sum", *, fill=None):
    """Return a table with one row for each value of a column and one column for each of another."""
    names = list(dict.fromkeys(table.column(columns)))
    keys = list(dict.fromkeys(table.column(rows)))
    result = Table([rows, *map(str, names)])
    for key in keys:
        cells = [key]
        for name in names:
            part = table.where(lambda row: row[rows] == key and row[columns] == name)
            cells.append(_aggregate(part, function, values) if len(part) else fill)
        result.add(cells)
    return result


def _aggregate(table, function, column):
    if function not in _FUNCTIONS:
        raise TableError(f"no function {function!r}; there are: {', '.join(_FUNCTIONS)}")
    values = [value for value in table.column(column) if value is not None]
    if not values:
        return 0 if function in ("sum", "count") else None
    return _FUNCTIONS[function](values)
