"""Numbers and quantities as text."""

from fractions import Fraction


def plain_number(value, digits=6):
    """Return a number with at most so many digits after the point, and none that are zero at the end."""
    text = f"{float(value):.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def significant(value, digits=3):
    """Return a number rounded to significant digits."""
    if digits < 1:
        raise ValueError(f"digits must be at least 1, not {digits!r}")
    value = Fraction(value)
    if value == 0:
        return Fraction(0)
    power = 0
    size = abs(value)
    while size >= 10:
        size /= 10
        power += 1
    while size < 1:
        size *= 10
        power -= 1
    return Fraction(round(value, digits - 1 - power))


def humanize(quantity, units, *, digits=3):
    """Return the quantity in the largest of some units in which it is at least 1, as text.

    Args:
        quantity: The quantity.
        units: Symbols of units, smallest first; the first one is used if it is below 1 in all.
        digits: Significant digits.
    """
    best = quantity.to(units[0])
    for unit in units[1:]:
        candidate = quantity.to(unit)
        if abs(candidate.value) < 1:
            break
        best = candidate
    return f"{plain_number(significant(best.value, digits))} {best.unit.symbol}"
