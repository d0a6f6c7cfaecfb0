"""Quantities: numbers with units."""

import re
from fractions import Fraction

from measures.errors import DimensionError, MeasureError
from measures.formatting import plain_number
from measures.registry import DEFAULT

_NUMBER = re.compile(r"\s*([+-]?\d+/\d+|[+-]?\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?)\s*(.*)", re.DOTALL)


class Quantity:
    """A number with a unit; the number is exact."""

    __slots__ = ("unit", "value")

    def __init__(self, value, unit="", *, registry=DEFAULT):
        self.value = Fraction(str(value)) if isinstance(value, float) else Fraction(value)
        self.unit = registry.parse(unit) if isinstance(unit, str) else unit

    @classmethod
    def parse(cls, text, *, registry=DEFAULT):
        """Read a quantity such as `2.5 km/h`; several are added up, as in `5 ft 3 in`. Raises `MeasureError`."""
        total = None
        rest = text
        while rest.strip():
            found = _NUMBER.match(rest)
            if found is None:
                raise MeasureError(f"not a quantity: {text!r}")
            unit = re.match(r"[^\d\s]?[^\s]*", found[2])[0]
            quantity = cls(Fraction(found[1].replace(",", ".")), unit, registry=registry)
            total = quantity if total is None else total + quantity
            rest = found[2][len(unit) :]
        if total is None:
            raise MeasureError("not a quantity: nothing was given")
        return total

    def to(self, unit, *, registry=DEFAULT):
        """Return the same quantity in another unit. Raises `DimensionError`."""
        target = registry.parse(unit) if isinstance(unit, str) else unit
        return Quantity(self.value * self.unit.ratio(target), target)

    def split(self, *units, registry=DEFAULT):
        """Return whole numbers of units, the last one taking what is left, e.g. hours, minutes and seconds."""
        parts = []
        rest = abs(self)
        for place, unit in enumerate(units):
            rest = rest.to(unit, registry=registry)
            value = rest.value if place == len(units) - 1 else Fraction(int(rest.value))
            part = Quantity(value, rest.unit)
            parts.append(-part if self.value < 0 else part)
            rest = rest - part
        return parts

    def round(self, digits=0):
        """Return the quantity with its number rounded, halves to the even neighbour."""
        return Quantity(round(self.value, digits), self.unit)

    def _in_my_unit(self, other):
        if not isinstance(other, Quantity):
            if not self.unit.is_plain:
                raise DimensionError(f"{other!r} has no unit, but {self} has")
            other = Quantity(other)
        return other.value * other.unit.ratio(self.unit)

    def __add__(self, other):
        return Quantity(self.value + self._in_my_unit(other), self.unit)

    def __sub__(self, other):
        return Quantity(self.value - self._in_my_unit(other), self.unit)

    def __neg__(self):
        return Quantity(-self.value, self.unit)

    def __abs__(self):
        return Quantity(abs(self.value), self.unit)

    def __mul__(self, other):
        if not isinstance(other, Quantity):
            return Quantity(self.value * Fraction(str(other)), self.unit)
        return Quantity(self.value * other.value, self.unit * other.unit)

    __rmul__ = __mul__

    def __truediv__(self, other):
        if not isinstance(other, Quantity):
            return Quantity(self.value / Fraction(str(other)), self.unit)
        if self.unit.fits(other.unit):
            return Quantity(self.value / other.value * self.unit.ratio(other.unit))
        return Quantity(self.value / other.value, self.unit / other.unit)

    def __pow__(self, power):
        return Quantity(self.value**power, self.unit**power)

    def __eq__(self, other):
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.unit.fits(other.unit) and self.value * self.unit.factor == other.value * other.unit.factor

    def __lt__(self, other):
        return self.value < self._in_my_unit(other)

    def __le__(self, other):
        return self.value <= self._in_my_unit(other)

    def __hash__(self):
        return hash((self.value * self.unit.factor, self.unit.powers))

    def __str__(self):
        return f"{plain_number(self.value)} {self.unit.symbol}".rstrip()

    def __repr__(self):
        return f"Quantity.parse({str(self)!r})"
