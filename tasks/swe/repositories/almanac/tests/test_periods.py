from datetime import date

import pytest
from almanac import AlmanacError, Period, age, month_view, parse_period
from almanac.arithmetic import add_months, end_of_month, months_between, start_of_week


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("2024", date(2024, 1, 1), date(2024, 12, 31)),
        ("2024-02", date(2024, 2, 1), date(2024, 2, 29)),
        ("2023Q1", date(2023, 1, 1), date(2023, 3, 31)),
        ("2023-Q4", date(2023, 10, 1), date(2023, 12, 31)),
        ("2024-W01", date(2024, 1, 1), date(2024, 1, 7)),
        ("2026-W53", date(2026, 12, 28), date(2027, 1, 3)),
    ],
)
def test_parse_period(text, first, last):
    assert parse_period(text) == Period(first, last)


@pytest.mark.parametrize("text", ["24", "2024-13", "2024Q5", "2024-W60", "x"])
def test_not_a_period(text):
    with pytest.raises(AlmanacError, match="not a period"):
        parse_period(text)


def test_period_length_and_days():
    period = Period(date(2024, 2, 27), date(2024, 3, 1))
    assert len(period) == 4
    assert [day.day for day in period] == [27, 28, 29, 1]
    assert date(2024, 3, 1) in period
    assert date(2024, 3, 2) not in period


def test_period_must_not_end_first():
    with pytest.raises(AlmanacError):
        Period(date(2024, 1, 2), date(2024, 1, 1))


def test_overlap():
    year, winter = parse_period("2024"), Period(date(2023, 12, 1), date(2024, 2, 29))
    assert year.overlap(winter) == Period(date(2024, 1, 1), date(2024, 2, 29))
    assert parse_period("2024-01").overlap(parse_period("2024-02")) is None
    one_day = Period(date(2024, 1, 31), date(2024, 2, 5)).overlap(parse_period("2024-01"))
    assert len(one_day) == 1


def test_split_months():
    parts = Period(date(2023, 12, 30), date(2024, 2, 2)).split_months()
    assert [len(part) for part in parts] == [2, 31, 2]


@pytest.mark.parametrize(
    ("day", "years"),
    [(date(2024, 2, 28), 23), (date(2024, 2, 29), 24), (date(2023, 2, 28), 23), (date(2000, 2, 29), 0)],
)
def test_age(day, years):
    assert age(date(2000, 2, 29), day) == years


def test_age_before_birth():
    with pytest.raises(AlmanacError):
        age(date(2000, 1, 1), date(1999, 12, 31))


@pytest.mark.parametrize(
    ("day", "months", "result"),
    [
        (date(2024, 1, 31), 1, date(2024, 2, 29)),
        (date(2024, 1, 31), -2, date(2023, 11, 30)),
        (date(2024, 12, 15), 1, date(2025, 1, 15)),
        (date(2024, 5, 1), 0, date(2024, 5, 1)),
    ],
)
def test_add_months(day, months, result):
    assert add_months(day, months) == result


def test_months_between():
    assert months_between(date(2024, 1, 15), date(2024, 3, 14)) == 1
    assert months_between(date(2024, 1, 15), date(2024, 3, 15)) == 2
    assert months_between(date(2024, 3, 15), date(2024, 1, 15)) == -2


def test_start_of_week():
    assert start_of_week(date(2024, 1, 3)) == date(2024, 1, 1)
    assert start_of_week(date(2024, 1, 3), first=6) == date(2023, 12, 31)
    assert start_of_week(date(2024, 1, 1)) == date(2024, 1, 1)


def test_end_of_month():
    assert end_of_month(date(2023, 2, 1)) == date(2023, 2, 28)


def test_month_view():
    assert month_view(2024, 2, marked=[date(2024, 2, 14)]) == [
        " Mo  Tu  We  Th  Fr  Sa  Su",
        "             1   2   3   4",
        " 5   6   7   8   9  10  11",
        "12  13  14* 15  16  17  18",
        "19  20  21  22  23  24  25",
        "26  27  28  29",
    ]


def test_month_view_weeks_and_sunday_first():
    lines = month_view(2024, 1, first=6, weeks=True)
    assert lines[0].split() == ["Su", "Mo", "Tu", "We", "Th", "Fr", "Sa"]
    assert lines[1].startswith(" 1 ")
    assert lines[1].split() == ["1", "1", "2", "3", "4", "5", "6"]
    assert lines[2].split()[:2] == ["2", "7"]
