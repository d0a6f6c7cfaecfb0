"""Function families about dates and weekdays."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from agentgym.tasks.code.families import Area, Arguments, Function, block, function
from agentgym.tasks.code.material import WORDS, day, day_count, listed

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DATES = ("2024-02-28", "2023-02-28", "2023-12-31", "2000-01-01", "2021-06-05")
_DATE_EDGES: tuple[Arguments, ...] = tuple((text,) for text in _DATES)


def _one_date(rng: Random) -> Arguments:
    return (day(rng).isoformat(),)


@function(
    Area.DATES,
    2,
    "You are given a date as YYYY-MM-DD. Go {days} days {way}.{weekend} Return the resulting date as {format}.",
    "Take a date (YYYY-MM-DD), go {way} by {days} days, and return the result as {format}.{weekend}",
    "Return, as {format}, the date {days} days {after} the given one (YYYY-MM-DD).{weekend}",
)
def shift_date(rng: Random) -> Function:
    """Shift a date."""
    days, forward = rng.randint(2, 400), rng.random() < 0.5
    wording, form = rng.choice(
        (
            ("DD.MM.YYYY", "%d.%m.%Y"),
            ("MM/DD/YYYY", "%m/%d/%Y"),
            ("YYYY-MM-DD", "%Y-%m-%d"),
            ("YYYYMMDD", "%Y%m%d"),
            ("YYYY-DDD (DDD is the day of the year, three digits)", "%Y-%j"),
        )
    )
    test, name = rng.choice(
        (("== 6", "a Sunday"), (">= 5", "a Saturday or Sunday"), ("== 0", "a Monday"), ("== 4", "a Friday"))
    )
    weekend, code = rng.choice(
        (
            ("", ""),
            (f" If that day is {name}, move on to the next day that is not.", "forward"),
            (f" If that day is {name}, move back to the last day before it that is not.", "back"),
        )
    )
    sign = {"forward": "+", "back": "-"}.get(code, "")
    source = block(f"""
        from datetime import date, timedelta


        def shift(text: str) -> str:
            day = date.fromisoformat(text) {"+" if forward else "-"} timedelta(days={days})
            {"for _ in range(2):" if sign else ""}
                {f"if day.weekday() {test}:" if sign else ""}
                    {f"day = day {sign} timedelta(days=1)" if sign else ""}
            return day.strftime({form!r})
    """)
    words = {
        "days": days,
        "way": "ahead" if forward else "back",
        "after": "after" if forward else "before",
        "format": wording,
        "weekend": weekend,
    }
    return Function(source, words, _one_date, _DATE_EDGES)


@function(
    Area.DATES,
    3,
    "Count the days from first to last (YYYY-MM-DD, {ends}) that are {days}{extra}. If last is before first, {swap}.",
    "How many of the days between first and last ({ends}; both are YYYY-MM-DD) are {days}{extra}? If the two "
    "dates are in the wrong order, {swap}.",
    "Given two dates YYYY-MM-DD, return how many days between them ({ends}) are {days}{extra}. When first is "
    "later than last, {swap}.",
)
def count_days(rng: Random) -> Function:
    """Count weekdays in a range of dates."""
    days = sorted(rng.sample(range(7), rng.randint(1, 4)))
    k = rng.randint(2, 5)
    ends, start, stop = rng.choice(
        (("both included", 0, 1), ("first included, last not", 0, 0), ("neither included", 1, 0))
    )
    extra, check = rng.choice(
        (
            ("", ""),
            (f" and whose day of the month is a multiple of {k}", f" and day.day % {k} == 0"),
            (" in an odd month (January is 1)", " and day.month % 2 == 1"),
            (f" and not among the first {k} days of a month", f" and day.day > {k}"),
        )
    )
    swap, code = rng.choice((("the result is 0", ""), ("swap them", "begin, end = min(begin, end), max(begin, end)")))
    source = block(f"""
        from datetime import date, timedelta


        def count_days(first: str, last: str) -> int:
            begin, end = date.fromisoformat(first), date.fromisoformat(last)
            {code}
            count = 0
            for i in range({start}, (end - begin).days + {stop}):
                day = begin + timedelta(days=i)
                if day.weekday() in {tuple(days)!r}{check}:
                    count += 1
            return count
    """)

    def draw(r: Random) -> Arguments:
        first = day(r, 2019, 2024)
        pair = (first.isoformat(), (first + timedelta(days=r.randint(3, 45))).isoformat())
        return pair[::-1] if r.random() < 0.15 else pair

    edges = (
        ("2024-02-28", "2024-03-01"),
        ("2021-06-05", "2021-06-05"),
        ("2021-06-30", "2021-06-01"),
        ("2023-12-29", "2024-01-08"),
        ("2024-01-01", "2024-01-31"),
        ("2022-05-02", "2022-05-15"),
    )
    words = {
        "ends": ends,
        "days": listed([_DAYS[d] + "s" for d in days]).replace(" and ", " or "),
        "extra": extra,
        "swap": swap,
    }
    return Function(source, words, draw, edges)


@function(
    Area.DATES,
    4,
    "Return the date (YYYY-MM-DD) of {day} of the given month. {none}",
    "Given a year and a month, find {day} of that month, and return its date as YYYY-MM-DD. {none}",
    "What is the date (YYYY-MM-DD) of {day} of a given month? The arguments are the year and the month. {none}",
)
def nth_weekday(rng: Random) -> Function:
    """Find a weekday of a month."""
    weekday, n = rng.randrange(7), rng.randint(0, 4)
    nth, index = (("first", 0), ("second", 1), ("third", 2), ("fifth", 4), ("last", -1))[n]
    delta = rng.choice((0, 0, *range(-10, 11)))
    which = f"the {nth} {_DAYS[weekday]}"
    shifted = f"the day {day_count(abs(delta))} {'after' if delta > 0 else 'before'} {which}" if delta else which
    none, guard = "", ""
    if index == 4:
        none = f"If the month has no fifth {_DAYS[weekday]}, return the empty string."
        guard = "if len(found) < 5:\n                return ''"
    source = block(f"""
        from datetime import date, timedelta


        def find_day(year: int, month: int) -> str:
            found = []
            for i in range(31):
                day = date(year, month, 1) + timedelta(days=i)
                if day.month == month and day.weekday() == {weekday}:
                    found.append(day)
            {guard}
            return (found[{index}]{f" + timedelta(days={delta})" if delta else ""}).isoformat()
    """)
    words = {"day": shifted, "none": none}
    edges = ((2024, 2), (2023, 2), (2021, 12), (2015, 2), (2022, 1), (2020, 8))
    return Function(source, words, lambda r: (r.randint(1990, 2035), r.randint(1, 12)), edges)


@function(
    Area.DATES,
    3,
    "Read a date of the form {given} and return {wanted}. Leading zeros may be missing. If the text does not "
    "have that form or there is no such day, return {bad}.",
    "You get a date written as {given}; leading zeros are optional. Return {wanted}, or {bad} if the day "
    "does not exist or the text has another form.",
    "The text should be a date of the form {given} (leading zeros are optional). Return {wanted}. If there "
    "is no such day or the form is wrong, return {bad} instead.",
)
def reformat_date(rng: Random) -> Function:
    """Rewrite dates."""
    bad, sep = rng.choice(("invalid", "?", "no date", *WORDS)), rng.choice("./- ")
    parts, order = rng.choice(
        (("D{s}M{s}Y", "d, m, y"), ("M{s}D{s}Y", "m, d, y"), ("Y{s}M{s}D", "y, m, d"), ("Y{s}D{s}M", "y, d, m"))
    )
    result, code = rng.choice(
        (
            ("the English name of its weekday, such as `Monday`", f"{_DAYS!r}[date(y, m, d).weekday()]"),
            ("the date as `Y-M-D`, with two digits for month and day", "date(y, m, d).isoformat()"),
            ("the number of the day within its year, as text", "str(date(y, m, d).timetuple().tm_yday)"),
            ("the date as `D Mon YYYY`, such as `3 Feb 2024`", 'f"{d} {date(y, m, d):%b} {y}"'),
        )
    )
    source = block(f"""
        from datetime import date


        def reformat(text: str) -> str:
            numbers = text.split({sep!r})
            if len(numbers) != 3 or not all(n.isdecimal() for n in numbers):
                return {bad!r}
            {order} = map(int, numbers)
            try:
                return {code}
            except ValueError:
                return {bad!r}
    """)

    def text(y: int, m: int, d: int) -> Arguments:
        values = {"y": y, "m": m, "d": d}
        return (sep.join(str(values[name]) for name in order.split(", ")),)

    def draw(r: Random) -> Arguments:
        random_day = day(r)
        return text(random_day.year, random_day.month, random_day.day + (r.random() < 0.1) * 20)

    edges = (
        text(2024, 2, 29),
        text(2023, 2, 29),
        text(2021, 4, 31),
        ("",),
        text(2022, 11, 5),
        ("12" + sep + "x" + sep + "2020",),
    )
    words = {"given": "`" + parts.replace("{s}", sep) + "`", "wanted": result, "bad": repr(bad)}
    return Function(source, words, draw, edges)
