from fractions import Fraction

import pytest
from measures import DEFAULT, DimensionError, Registry, Unit, UnitError


@pytest.mark.parametrize(
    ("text", "factor"),
    [
        ("m", 1),
        ("km", 1000),
        ("cm", Fraction(1, 100)),
        ("ft", Fraction("0.3048")),
        ("mi", Fraction("1609.344")),
        ("km/h", Fraction(5, 18)),
        ("m^3", 1),
        ("1/s", 1),
        ("m/(s*min)", Fraction(1, 60)),
        ("m*s^-2", 1),
        ("kJ", 1_000_000),
        ("ml", Fraction(1, 10**6)),
        ("%", Fraction(1, 100)),
    ],
)
def test_factors(text, factor):
    assert DEFAULT.parse(text).factor == factor


def test_powers():
    assert DEFAULT.parse("N").powers == (("length", 1), ("mass", 1), ("time", -2))
    assert DEFAULT.parse("m*m/m").powers == (("length", 1),)
    assert DEFAULT.parse("m/ft").is_plain


@pytest.mark.parametrize(
    ("text", "symbol"), [("km / h", "km/h"), ("m^1", "m"), ("m/(s*s)", "m/(s*s)"), ("1/s", "1/s"), ("meter", "m"), ("m^0", "")]
)
def test_symbols(text, symbol):
    assert DEFAULT.parse(text).symbol == symbol


@pytest.mark.parametrize("text", ["parsec", "m//s", "m^", "m^x", "(m", "m)", "m s", "$", "m*", "kft", "kmeter"])
def test_unknown_or_unreadable_units(text):
    with pytest.raises(UnitError):
        DEFAULT.parse(text)


def test_ratio():
    assert DEFAULT.get("h").ratio(DEFAULT.get("min")) == 60
    with pytest.raises(DimensionError, match="h is not a kind of m"):
        DEFAULT.get("h").ratio(DEFAULT.get("m"))


def test_contains():
    assert "kg" in DEFAULT
    assert "xg" not in DEFAULT
    assert "kmi" not in DEFAULT


def test_definitions():
    registry = Registry()
    registry.add("m", Unit.base("length", "m"), prefixes=True)
    registry.define("span, handspan = 0.2286 m")
    assert registry.get("handspan").symbol == "span"
    assert registry.parse("span/cm").factor == Fraction("22.86")
    with pytest.raises(UnitError, match="already"):
        registry.define("span = 1 m")
    with pytest.raises(UnitError, match="not a number"):
        registry.define("rod = five m")


def test_new_definitions_replace_what_was_remembered():
    registry = Registry()
    registry.add("m", Unit.base("length", "m"))
    with pytest.raises(UnitError):
        registry.parse("ell")
    registry.define("ell = 1.143 m")
    assert registry.parse("ell").factor == Fraction("1.143")


def test_similar():
    assert DEFAULT.similar(DEFAULT.get("min")) == ["s", "min", "h", "d", "week"]


def test_power_of_a_unit():
    assert (DEFAULT.get("ft") ** 2).factor == Fraction("0.3048") ** 2
    assert (DEFAULT.get("s") ** -1).powers == (("time", -1),)
