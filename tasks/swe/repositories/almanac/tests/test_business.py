from datetime import date

import pytest
from almanac import AlmanacError, Calendar, easter, fixed, nth_weekday, observed, relative_to_easter


@pytest.fixture
def calendar():
    return Calendar([fixed(1, 1), fixed(5, 1), relative_to_easter(-2), date(2024, 12, 24)])


@pytest.mark.parametrize(
    ("year", "month", "day"), [(1999, 4, 4), (2000, 4, 23), (2024, 3, 31), (2025, 4, 20), (2038, 4, 25), (1818, 3, 22)]
)
def test_easter(year, month, day):
    assert easter(year) == date(year, month, day)


def test_nth_weekday():
    assert nth_weekday(1, 0, 3)(2024) == date(2024, 1, 15)
    assert nth_weekday(5, 0, -1)(2024) == date(2024, 5, 27)
    assert nth_weekday(11, 3, -2)(2024) == date(2024, 11, 21)


def test_nth_weekday_that_is_not_there():
    with pytest.raises(AlmanacError):
        nth_weekday(2, 0, 5)(2023)
    with pytest.raises(AlmanacError):
        nth_weekday(2, 0, 0)


def test_observed():
    holiday = observed(fixed(7, 4))
    assert [holiday(year) for year in (2020, 2021, 2024)] == [date(2020, 7, 3), date(2021, 7, 5), date(2024, 7, 4)]


def test_holidays(calendar):
    assert calendar.holidays(2024) == [date(2024, 1, 1), date(2024, 3, 29), date(2024, 5, 1), date(2024, 12, 24)]
    assert len(calendar.holidays(2025)) == 3


def test_is_business_day(calendar):
    assert calendar.is_business_day(date(2024, 1, 2))
    assert not calendar.is_business_day(date(2024, 1, 1))
    assert not calendar.is_business_day(date(2024, 1, 6))


def test_next_and_previous(calendar):
    assert calendar.next(date(2024, 3, 28)) == date(2024, 4, 1)
    assert calendar.next(date(2024, 3, 28), same=True) == date(2024, 3, 28)
    assert calendar.previous(date(2024, 4, 1)) == date(2024, 3, 28)
    assert calendar.previous(date(2024, 3, 31), same=True) == date(2024, 3, 28)


@pytest.mark.parametrize(
    ("days", "day"), [(0, date(2024, 1, 2)), (1, date(2024, 1, 2)), (5, date(2024, 1, 8)), (-1, date(2023, 12, 29))]
)
def test_add(calendar, days, day):
    assert calendar.add(date(2024, 1, 1), days) == day


def test_count(calendar):
    assert calendar.count(date(2024, 1, 1), date(2024, 1, 8)) == 4
    assert calendar.count(date(2024, 1, 8), date(2024, 1, 1)) == -4
    assert calendar.count(date(2024, 1, 5), date(2024, 1, 5)) == 0


@pytest.mark.parametrize(
    ("convention", "day"),
    [("following", date(2024, 4, 1)), ("preceding", date(2024, 3, 28)), ("modified", date(2024, 3, 28))],
)
def test_adjust(calendar, convention, day):
    assert calendar.adjust(date(2024, 3, 30), convention) == day


def test_adjust_modified_within_the_month(calendar):
    assert calendar.adjust(date(2024, 1, 6), "modified") == date(2024, 1, 8)
    with pytest.raises(AlmanacError):
        calendar.adjust(date(2024, 1, 6), "nearest")


def test_last_of_month(calendar):
    assert calendar.last_of_month(date(2024, 3, 5)) == date(2024, 3, 28)


def test_other_weekend():
    calendar = Calendar(weekend=(4, 5))
    assert calendar.is_business_day(date(2024, 1, 7))
    assert not calendar.is_business_day(date(2024, 1, 5))
    with pytest.raises(AlmanacError):
        Calendar(weekend=range(7))
