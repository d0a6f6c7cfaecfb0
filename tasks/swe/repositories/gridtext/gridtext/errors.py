"""Errors of this package."""


class TableError(ValueError):
    """Rows, columns or cells that do not go together."""


class StyleError(TableError):
    """A style that does not exist."""
