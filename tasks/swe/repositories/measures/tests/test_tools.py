from fractions import Fraction

import pytest
from measures import MeasureError, Quantity, UnitError, convert_temperature, humanize, mean, significant, total, within
from measures.formatting import plain_number


def q(text):
    return Quantity.parse(text)


@pytest.mark.parametrize(
    ("value", "text"), [(1, "1"), (Fraction(1, 3), "0.333333"), (-0.0000001, "0"), (100, "100"), (2.50, "2.5")]
)
def test_plain_number(value, text):
    assert plain_number(value) == text


@pytest.mark.parametrize(
    ("value", "digits", "result"),
    [(1234, 2, 1200), (Fraction("0.001256"), 3, Fraction("0.00126")), (-98765, 1, -100000), (0, 3, 0), (10, 1, 10)],
)
def test_significant(value, digits, result):
    assert significant(value, digits) == result


def test_significant_needs_digits():
    with pytest.raises(ValueError):
        significant(1, 0)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("1234 m", "1.23 km"), ("999 m", "999 m"), ("1000 m", "1 km"), ("0.02 m", "20 mm"), ("0.0001 m", "0.1 mm"), ("-5 km", "-5 km")],
)
def test_humanize(text, shown):
    assert humanize(q(text), ["mm", "m", "km"]) == shown


def test_humanize_digits():
    assert humanize(q("12345 s"), ["s", "min", "h"], digits=2) == "3.4 h"


@pytest.mark.parametrize(
    ("value", "source", "target", "result"),
    [(100, "C", "F", 212.0), (32, "F", "C", 0.0), (0, "C", "K", 273.15), (-40, "C", "F", -40.0), (491.67, "R", "C", 0.0), (5, "K", "K", 5.0)],
)
def test_temperature(value, source, target, result):
    assert convert_temperature(value, source, target) == pytest.approx(result)


def test_temperature_limits():
    with pytest.raises(MeasureError, match="below absolute zero"):
        convert_temperature(-274, "C", "K")
    assert convert_temperature(-273.15, "C", "K") == 0
    with pytest.raises(UnitError, match="there are: K, C, F, R"):
        convert_temperature(1, "C", "X")


def test_total():
    assert str(total([q("1 km"), q("500 m")])) == "1.5 km"
    assert str(total([q("1 km"), q("500 m")], "m")) == "1500 m"
    with pytest.raises(MeasureError):
        total([])


def test_mean():
    assert str(mean([q("1 km"), q("500 m")])) == "0.75 km"
    assert str(mean([q("1 m"), q("4 m")], weights=[2, 1], unit="cm")) == "200 cm"


def test_mean_refuses():
    with pytest.raises(MeasureError, match="1 quantities, but 2 weights"):
        mean([q("1 m")], weights=[1, 2])
    with pytest.raises(MeasureError, match="more than 0"):
        mean([q("1 m")], weights=[0])


def test_within():
    assert within(q("103 cm"), q("1 m"), percent=3)
    assert not within(q("104 cm"), q("1 m"), percent=3)
    assert within(q("98 cm"), q("1 m"), absolute=q("2 cm"))
    assert not within(q("97 cm"), q("1 m"), absolute=q("2 cm"))
    assert not within(q("98 cm"), q("1 m"), percent=5, absolute=q("1 cm"))
    assert within(q("5 m"), q("1 m"))
