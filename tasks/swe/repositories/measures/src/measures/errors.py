"""Errors of this package."""


class MeasureError(ValueError):
    """Base of all errors of this package."""


class UnitError(MeasureError):
    """A unit that does not exist or cannot be read."""


class DimensionError(MeasureError):
    """Quantities that cannot be added, compared or converted."""
