import pytest
from tallybook import Money, MoneyError


@pytest.mark.parametrize(
    ("text", "cents"),
    [("12", 1200), ("12.5", 1250), ("-0.05", -5), ("1,250.50", 125050), ("+3.07", 307), (" 7 ", 700)],
)
def test_parse(text, cents):
    assert Money.parse(text) == Money(cents)


def test_parse_currency():
    assert Money.parse("5 USD") == Money(500, "USD")
    assert Money.parse("5", "CHF").currency == "CHF"


@pytest.mark.parametrize("text", ["", "1.234", "12,50", "abc", "1 euro", "--1"])
def test_parse_refuses(text):
    with pytest.raises(MoneyError):
        Money.parse(text)


def test_arithmetic():
    assert Money(500) + Money(250) == Money(750)
    assert Money(500) - Money(750) == Money(-250)
    assert -Money(5) == Money(-5)


def test_order_and_truth():
    assert Money(1) < Money(2)
    assert Money(2) <= Money(2)
    assert not Money(2) < Money(2)
    assert not Money(0)
    assert Money(-1)


def test_currencies_do_not_mix():
    with pytest.raises(MoneyError):
        Money(1) + Money(1, "USD")
    with pytest.raises(TypeError):
        Money(1) + 1


@pytest.mark.parametrize(
    ("cents", "weights", "parts"),
    [
        (100, (1, 1, 1), [34, 33, 33]),
        (-100, (1, 1, 1), [-34, -33, -33]),
        (101, (0, 1, 1), [0, 51, 50]),
        (9, (2, 1), [6, 3]),
    ],
)
def test_share(cents, weights, parts):
    assert [part.cents for part in Money(cents).share(*weights)] == parts


@pytest.mark.parametrize("weights", [(), (0, 0), (2, -1)])
def test_share_refuses(weights):
    with pytest.raises(MoneyError):
        Money(100).share(*weights)


@pytest.mark.parametrize(
    ("cents", "rate", "result"), [(1000, 19, 190), (50, 1, 1), (-1000, 2.5, -25), (1000, -10, -100), (49, 1, 0)]
)
def test_percent(cents, rate, result):
    assert Money(cents).percent(rate) == Money(result)


@pytest.mark.parametrize(("cents", "text"), [(5, "0.05 EUR"), (-123456, "-1,234.56 EUR"), (0, "0.00 EUR")])
def test_str(cents, text):
    assert str(Money(cents)) == text
