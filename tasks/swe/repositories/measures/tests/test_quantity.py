import pytest
from measures import DimensionError, MeasureError, Quantity, UnitError


def q(text):
    return Quantity.parse(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2.5 km/h", "2.5 km/h"),
        ("2,5km", "2.5 km"),
        ("-3e2 m", "-300 m"),
        ("1/4 l", "0.25 l"),
        ("5 ft 3 in", "5.25 ft"),
        ("1 h 30 min", "1.5 h"),
        ("7", "7"),
        ("50 %", "50 %"),
    ],
)
def test_parse(text, shown):
    assert str(q(text)) == shown


@pytest.mark.parametrize("text", ["", "km", "five km", "1 h 2 m", "3 parsec", "2 km x"])
def test_parse_refuses(text):
    with pytest.raises(MeasureError):
        q(text)


@pytest.mark.parametrize(
    ("text", "unit", "shown"),
    [("90 km/h", "m/s", "25 m/s"), ("1 mi", "ft", "5280 ft"), ("1 kW*h", "MJ", "3.6 MJ"), ("2 l", "cm^3", "2000 cm^3"), ("1 %", "", "0.01")],
)
def test_to(text, unit, shown):
    assert str(q(text).to(unit)) == shown


def test_to_another_kind():
    with pytest.raises(DimensionError):
        q("1 m").to("s")
    with pytest.raises(UnitError):
        q("1 m").to("parsec")


def test_sums_keep_the_first_unit():
    assert str(q("1 km") + q("250 m")) == "1.25 km"
    assert str(q("1 m") - q("1 ft")) == "0.6952 m"
    assert str(-q("1 m")) == "-1 m"


def test_numbers_and_units_do_not_mix():
    with pytest.raises(DimensionError, match="has no unit"):
        q("1 m") + 1
    assert str(q("1") + 1) == "2"
    assert str(q("50 %") + Quantity(1)) == "150 %"


def test_products():
    assert str(q("2 m") * q("3 s")) == "6 m*s"
    assert str(3 * q("1.5 m")) == "4.5 m"
    assert (q("2 h") * q("90 km/h")).to("km") == q("180 km")
    assert str(q("3 m") ** 2) == "9 m^2"


def test_quotients():
    assert str(q("10 km") / q("2 h")) == "5 km/h"
    assert str(q("1 km") / q("250 m")) == "4"
    assert str(q("1 km") / 4) == "0.25 km"


def test_comparisons():
    assert q("1 km") == q("1000 m")
    assert hash(q("1 km")) == hash(q("1000 m"))
    assert q("1 m") != q("1 s")
    assert q("999 m") < q("1 km")
    assert q("1 km") <= q("1000 m")
    assert not q("1 km") < q("1000 m")
    assert q("1 m") != 1


def test_floats_are_taken_as_written():
    assert Quantity(0.1, "m") + Quantity(0.2, "m") == Quantity(0.3, "m")


def test_split():
    assert [str(part) for part in q("3725.5 s").split("h", "min", "s")] == ["1 h", "2 min", "5.5 s"]
    assert [str(part) for part in q("-90 min").split("h", "min")] == ["-1 h", "-30 min"]
    assert [str(part) for part in q("59 s").split("h", "min", "s")] == ["0 h", "0 min", "59 s"]


def test_round():
    assert str(q("2.345 m").round(1)) == "2.3 m"
    assert str(q("2.5 m").round()) == "2 m"


def test_repr():
    assert repr(q("1.50 km")) == "Quantity.parse('1.5 km')"


def test_abs():
    assert abs(q("-2 m")) == q("2 m")
