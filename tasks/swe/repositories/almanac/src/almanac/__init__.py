"""Dates: recurrence, business days, periods."""

from almanac.business import Calendar
from almanac.errors import AlmanacError, RuleError
from almanac.holidays import easter, fixed, nth_weekday, observed, relative_to_easter
from almanac.month import month_view
from almanac.periods import Period, age, parse_period
from almanac.rules import Rule, merge

__all__ = [
    "AlmanacError",
    "Calendar",
    "Period",
    "Rule",
    "RuleError",
    "age",
    "easter",
    "fixed",
    "merge",
    "month_view",
    "nth_weekday",
    "observed",
    "parse_period",
    "relative_to_easter",
]
__version__ = "3.0.2"
