"""Errors of this package."""


class AlmanacError(ValueError):
    """Base of all errors of this package."""


class RuleError(AlmanacError):
    """A recurrence that cannot be."""
