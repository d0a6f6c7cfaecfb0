from datetime import date
from itertools import islice

import pytest
from almanac import Rule, RuleError, merge


def shown(days):
    return [day.isoformat() for day in days]


def test_daily():
    assert shown(Rule("daily", date(2024, 2, 27), every=2).take(3)) == ["2024-02-27", "2024-02-29", "2024-03-02"]


def test_weekly_on_the_weekday_of_start():
    assert shown(Rule("weekly", date(2024, 1, 3)).take(2)) == ["2024-01-03", "2024-01-10"]


def test_weekly_on_several_days():
    rule = Rule("weekly", date(2024, 1, 3), weekdays=[4, 0, 0], every=2)
    assert shown(rule.take(4)) == ["2024-01-05", "2024-01-15", "2024-01-19", "2024-01-29"]


def test_monthly_leaves_out_short_months():
    assert shown(Rule("monthly", date(2024, 1, 31)).take(3)) == ["2024-01-31", "2024-03-31", "2024-05-31"]


def test_monthly_from_the_end():
    rule = Rule("monthly", date(2024, 1, 15), days=[-1, 15])
    assert shown(rule.take(4)) == ["2024-01-15", "2024-01-31", "2024-02-15", "2024-02-29"]


def test_monthly_every_other():
    assert shown(Rule("monthly", date(2023, 11, 5), every=2).take(3)) == ["2023-11-05", "2024-01-05", "2024-03-05"]


def test_yearly():
    assert shown(Rule("yearly", date(2023, 3, 1), every=5).take(2)) == ["2023-03-01", "2028-03-01"]


def test_yearly_leap_day():
    assert shown(Rule("yearly", date(2024, 2, 29)).take(2)) == ["2024-02-29", "2028-02-29"]


def test_count_and_until():
    assert len(list(Rule("daily", date(2024, 1, 1), count=4))) == 4
    assert list(Rule("daily", date(2024, 1, 1), count=0)) == []
    assert shown(Rule("daily", date(2024, 1, 1), until=date(2024, 1, 2))) == ["2024-01-01", "2024-01-02"]


def test_skipped_days_count():
    rule = Rule("daily", date(2024, 1, 1), count=3, skip=[date(2024, 1, 2)])
    assert shown(rule) == ["2024-01-01", "2024-01-03"]


def test_between():
    rule = Rule("weekly", date(2024, 1, 1))
    assert shown(rule.between(date(2024, 1, 8), date(2024, 1, 15))) == ["2024-01-08", "2024-01-15"]


def test_after_and_before():
    rule = Rule("weekly", date(2024, 1, 1), count=3)
    assert rule.after(date(2024, 1, 8)) == date(2024, 1, 15)
    assert rule.after(date(2024, 1, 8), inclusive=True) == date(2024, 1, 8)
    assert rule.after(date(2024, 1, 15)) is None
    assert rule.before(date(2024, 1, 8)) == date(2024, 1, 1)
    assert rule.before(date(2024, 1, 1)) is None


def test_contains():
    rule = Rule("weekly", date(2024, 1, 1))
    assert date(2024, 1, 22) in rule
    assert date(2024, 1, 23) not in rule


def test_ends_with_the_calendar():
    assert shown(Rule("yearly", date(9998, 1, 1))) == ["9998-01-01", "9999-01-01"]


@pytest.mark.parametrize(
    "options",
    [
        {"frequency": "hourly"},
        {"frequency": "daily", "every": 0},
        {"frequency": "daily", "count": -1},
        {"frequency": "daily", "weekdays": [1]},
        {"frequency": "weekly", "weekdays": [7]},
        {"frequency": "weekly", "days": [1]},
        {"frequency": "monthly", "days": [0]},
        {"frequency": "monthly", "days": [32]},
    ],
)
def test_impossible_rules(options):
    with pytest.raises(RuleError):
        Rule(start=date(2024, 1, 1), **options)


def test_merge():
    one = Rule("daily", date(2024, 1, 1), every=2)
    two = Rule("daily", date(2024, 1, 1), every=3)
    assert [day.day for day in islice(merge(one, two), 5)] == [1, 3, 4, 5, 7]
