"""Units by name, with prefixes, and expressions of units."""

import re
from fractions import Fraction

from measures.errors import UnitError
from measures.units import Unit

PREFIXES = {
    "G": Fraction(10**9),
    "M": Fraction(10**6),
    "k": Fraction(1000),
    "h": Fraction(100),
    "d": Fraction(1, 10),
    "c": Fraction(1, 100),
    "m": Fraction(1, 1000),
    "u": Fraction(1, 10**6),
    "n": Fraction(1, 10**9),
}
_TOKEN = re.compile(r"\s*([A-Za-z%°]+|\d+|[*/^()-])")


class Registry:
    """Knows units by symbol."""

    def __init__(self):
        self._units = {}
        self._prefixed = set()
        self._cache = {}

    def add(self, symbol, unit, *, prefixes=False, aliases=()):
        """Add a unit, which may take prefixes and have other names. Raises `UnitError` if a name is taken."""
        for name in (symbol, *aliases):
            if name in self._units:
                raise UnitError(f"there is a unit {name!r} already")
            self._units[name] = Unit(unit.factor, unit.powers, symbol)
        if prefixes:
            self._prefixed.add(symbol)
        self._cache.clear()

    def define(self, text, *, prefixes=False):
        """Add a unit by a definition such as `ft = 0.3048 m` or `min, minute = 60 s`."""
        names, _, definition = text.partition("=")
        number, _, expression = definition.strip().partition(" ")
        symbol, *aliases = [name.strip() for name in names.split(",")]
        try:
            factor = Fraction(number)
        except ValueError as error:
            raise UnitError(f"{number!r} in {text!r} is not a number") from error
        self.add(symbol, self.parse(expression).scaled(factor, symbol), prefixes=prefixes, aliases=aliases)

    def __contains__(self, symbol):
        return self._find(symbol) is not None

    def get(self, symbol):
        """Return a unit by symbol, with or without prefix. Raises `UnitError`."""
        unit = self._find(symbol)
        if unit is None:
            raise UnitError(f"unknown unit {symbol!r}")
        return unit

    def _find(self, symbol):
        if symbol in self._units:
            return self._units[symbol]
        prefix, rest = symbol[:1], symbol[1:]
        if prefix in PREFIXES and rest in self._prefixed:
            return self._units[rest].scaled(PREFIXES[prefix], symbol)
        return None

    def parse(self, text):
        """Return the unit of an expression such as `kg*m/s^2`. Raises `UnitError`."""
        if text not in self._cache:
            parser = _Parser(self, text)
            self._cache[text] = parser.parse()
        return self._cache[text]

    def similar(self, unit):
        """Return the symbols of units of the same kind, smallest first."""
        found = {item.symbol: item for item in self._units.values() if item.fits(unit)}
        return sorted(found, key=lambda symbol: (found[symbol].factor, symbol))


class _Parser:
    def __init__(self, registry, text):
        self._registry = registry
        self._text = text
        self._tokens = self._split(text)

    def _split(self, text):
        tokens = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            found = _TOKEN.match(stripped, position)
            if found is None:
                raise UnitError(f"cannot read {stripped[position:]!r} in unit {text!r}")
            tokens.append(found[1])
            position = found.end()
        return tokens

    def parse(self):
        if not self._tokens:
            return Unit(Fraction(1))
        unit = self._product()
        if self._tokens:
            raise UnitError(f"unexpected {self._tokens[0]!r} in unit {self._text!r}")
        return unit

    def _product(self):
        unit = self._power()
        while self._tokens and self._tokens[0] in "*/":
            operator = self._tokens.pop(0)
            other = self._power()
            unit = unit * other if operator == "*" else unit / other
        return unit

    def _power(self):
        unit = self._atom()
        if self._tokens and self._tokens[0] == "^":
            self._tokens.pop(0)
            sign = 1
            if self._tokens and self._tokens[0] == "-":
                self._tokens.pop(0)
                sign = -1
            if not self._tokens or not self._tokens[0].isdecimal():
                raise UnitError(f"a power must follow '^' in unit {self._text!r}")
            unit = unit ** (sign * int(self._tokens.pop(0)))
        return unit

    def _atom(self):
        if not self._tokens:
            raise UnitError(f"unit {self._text!r} ends too early")
        token = self._tokens.pop(0)
        if token == "(":
            unit = self._product()
            if not self._tokens or self._tokens.pop(0) != ")":
                raise UnitError(f"')' is missing in unit {self._text!r}")
            return unit
        if token == "1":
            return Unit(Fraction(1))
        return self._registry.get(token)


def _default():
    registry = Registry()
    for dimension, symbol, aliases in (
        ("length", "m", ("meter", "metre")),
        ("mass", "g", ("gram",)),
        ("time", "s", ("second",)),
        ("data", "bit", ()),
    ):
        registry.add(symbol, Unit.base(dimension, symbol), prefixes=True, aliases=aliases)
    for text in (
        "min, minute = 60 s", "h, hour = 60 min", "d, day = 24 h", "week = 7 d",
        "in, inch = 0.0254 m", "ft, foot = 12 in", "yd, yard = 3 ft", "mi, mile = 1760 yd",
        "lb, pound = 453.59237 g", "oz, ounce = 0.0625 lb", "t, tonne = 1000 kg",
        "B, byte = 8 bit", "% = 0.01 1", "knot = 1852 m/h",
    ):  # fmt: skip
        registry.define(text)
    for text in ("l, liter = 0.001 m^3", "N, newton = 1 kg*m/s^2", "J, joule = 1 N*m", "W, watt = 1 J/s"):
        registry.define(text, prefixes=True)
    return registry


DEFAULT = _default()
"""The usual units."""
