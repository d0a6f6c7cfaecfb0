"""Errors of this package."""


class QuilletError(Exception):
    """Base of all errors of this package."""


class TemplateSyntaxError(QuilletError):
    """A template that cannot be read; tells the line."""

    def __init__(self, message, line):
        super().__init__(f"line {line}: {message}")
        self.line = line


class RenderError(QuilletError):
    """A template that cannot be rendered with the values given."""
