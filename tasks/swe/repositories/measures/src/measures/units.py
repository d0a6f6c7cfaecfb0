"""Units: a factor and powers of the base dimensions."""

from dataclasses import dataclass
from fractions import Fraction

from measures.errors import DimensionError


@dataclass(frozen=True)
class Unit:
    """A unit such as `km/h`.

    Attributes:
        factor: Value of one such unit in base units.
        powers: (dimension, power) pairs in order, without zero powers.
        symbol: How it is written.
    """

    factor: Fraction
    powers: tuple = ()
    symbol: str = ""

    @classmethod
    def base(cls, dimension, symbol):
        """Return the base unit of a dimension."""
        return cls(Fraction(1), ((dimension, 1),), symbol)

    @property
    def is_plain(self):
        """Whether it has no dimension, like a number."""
        return not self.powers

    def fits(self, other):
        """Whether quantities of the two units can be added."""
        return self.powers == other.powers

    def ratio(self, other):
        """Return how many of the other unit one of this is. Raises `DimensionError`."""
        if not self.fits(other):
            raise DimensionError(f"{self.symbol or 'a number'} is not a kind of {other.symbol or 'number'}")
        return self.factor / other.factor

    def __mul__(self, other):
        symbol = _joined(self.symbol, other.symbol, "*")
        return Unit(self.factor * other.factor, _added(self.powers, other.powers, 1), symbol)

    def __truediv__(self, other):
        symbol = _joined(self.symbol, other.symbol, "/")
        return Unit(self.factor / other.factor, _added(self.powers, other.powers, -1), symbol)

    def __pow__(self, power):
        powers = tuple((name, value * power) for name, value in self.powers if value * power)
        symbol = f"({self.symbol})" if "*" in self.symbol or "/" in self.symbol else self.symbol
        if power != 1 and symbol:
            symbol = f"{symbol}^{power}"
        return Unit(self.factor**power, powers, symbol if power else "")

    def scaled(self, factor, symbol):
        """Return a multiple of the unit with a symbol of its own."""
        return Unit(self.factor * Fraction(factor), self.powers, symbol)


def _added(one, two, sign):
    powers = dict(one)
    for name, value in two:
        powers[name] = powers.get(name, 0) + sign * value
    return tuple(sorted((name, value) for name, value in powers.items() if value))


def _joined(one, two, operator):
    if not two:
        return one
    if not one:
        return two if operator == "*" else f"1/{two}"
    if operator == "/" and ("*" in two or "/" in two):
        two = f"({two})"
    return f"{one}{operator}{two}"
