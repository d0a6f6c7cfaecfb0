"""Temperatures, which have other zero points and so are no plain units."""

from fractions import Fraction

from measures.errors import MeasureError, UnitError

_TO_KELVIN = {
    "K": (Fraction(1), Fraction(0)),
    "C": (Fraction(1), Fraction("273.15")),
    "F": (Fraction(5, 9), Fraction("459.67") * Fraction(5, 9)),
    "R": (Fraction(5, 9), Fraction(0)),
}


def convert_temperature(value, source, target):
    """Return a temperature on another scale: `K`, `C`, `F` or `R`. Raises `MeasureError` below absolute zero."""
    for scale in (source, target):
        if scale not in _TO_KELVIN:
            raise UnitError(f"unknown scale {scale!r}; there are: {', '.join(_TO_KELVIN)}")
    factor, shift = _TO_KELVIN[source]
    kelvin = Fraction(str(value)) * factor + shift
    if kelvin < 0:
        raise MeasureError(f"{value} {source} is below absolute zero")
    factor, shift = _TO_KELVIN[target]
    return float((kelvin - shift) / factor)
