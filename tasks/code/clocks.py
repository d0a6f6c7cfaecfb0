"""Function families about times of day, spans and monthly payments."""

from __future__ import annotations

from calendar import month_name
from random import Random

from agentgym.tasks.code.families import Area, Arguments, Function, block, function
from agentgym.tasks.code.material import clock, day, nth


@function(
    Area.DATES,
    2,
    "You are given a time of day as HH:MM (24-hour clock). {first} Then {round}. Return the time as HH:MM, "
    "wrapping around at midnight.",
    "Take a time HH:MM between 00:00 and 23:59. {first} After that, {round}. Return the new time as HH:MM; "
    "after 23:59 comes 00:00 again.",
    "Change a 24-hour time HH:MM in two steps. {first} Next, {round}. Return it as HH:MM, with times past "
    "midnight wrapping around.",
)
def change_clock(rng: Random) -> Function:
    """Change a time of day."""
    m, k, noon = rng.randint(3, 900), rng.choice((5, 6, 10, 12, 15, 20, 30)), rng.randint(9, 18)
    first, code = rng.choice(
        (
            (f"Add {m} minutes.", f"minutes += {m}"),
            (f"Subtract {m} minutes.", f"minutes -= {m}"),
            (
                f"If it is before {noon:02}:00, add {m} minutes; otherwise, subtract {k} minutes.",
                f"minutes += {m} if minutes < {noon * 60} else -{k}",
            ),
            ("Mirror it: 00:00 stays, 00:10 becomes 23:50 and so on.", "minutes = -minutes"),
        )
    )
    how, rounding = rng.choice(
        (
            (f"round down to a multiple of {k} minutes", f"minutes = minutes // {k} * {k}"),
            (f"round up to a multiple of {k} minutes", f"minutes = (minutes + {k - 1}) // {k} * {k}"),
            (f"add {k} minutes more if the number of minutes since 00:00 is odd", f"minutes += {k} * (minutes % 2)"),
        )
    )
    source = block(f"""
        def change(text: str) -> str:
            hour, minute = text.split(":")
            minutes = int(hour) * 60 + int(minute)
            {code}
            {rounding}
            minutes = minutes % 1440
            return f"{{minutes // 60:02}}:{{minutes % 60:02}}"
    """)
    edges = (("00:00",), ("23:59",), ("12:00",), ("09:07",), (f"{noon:02}:00",), ("00:01",))
    return Function(source, {"first": first, "round": how}, lambda r: (clock(r),), edges)


@function(
    Area.DATES,
    4,
    "You are given time spans of one day as `HH:MM-HH:MM` (start before end), which may overlap. Return "
    "{result} between {open} and {close}; anything outside does not count.",
    "For a list of possibly overlapping spans `HH:MM-HH:MM` of one day, return {result}. Only the time from "
    "{open} to {close} matters.",
    "Each string is a span of time `HH:MM-HH:MM`, and spans may overlap. Looking only at the time from "
    "{open} to {close}, return {result}.",
)
def busy_time(rng: Random) -> Function:
    """Measure the time that spans cover."""
    begin, length, least = rng.randint(10, 22) * 30, rng.randint(12, 22) * 30, rng.choice((10, 15, 20, 30))
    end = begin + length
    result, code = rng.choice(
        (
            ("the number of minutes that at least one span covers", "sum(c > 0 for c in cover)"),
            ("the number of minutes that no span covers", "sum(c == 0 for c in cover)"),
            ("the number of minutes that two or more spans cover", "sum(c > 1 for c in cover)"),
            (
                "the number of minutes in the longest stretch that no span covers",
                'max(map(len, "".join("x" if c else "." for c in cover).split("x")))',
            ),
            (
                f"the number of unbroken stretches of at least {least} minutes that no span covers",
                f'sum(len(gap) >= {least} for gap in "".join("x" if c else "." for c in cover).split("x"))',
            ),
        )
    )
    source = block(f"""
        def minutes(text: str) -> int:
            hour, minute = text.split(":")
            return int(hour) * 60 + int(minute)


        def measure(spans: list[str]) -> int:
            cover = [0] * {length}
            for span in spans:
                start, end = span.split("-")
                for m in range(max(minutes(start), {begin}), min(minutes(end), {end})):
                    cover[m - {begin}] += 1
            return {code}
    """)

    def draw(r: Random) -> Arguments:
        spans = [
            sorted({clock(r), clock(r), f"{r.randint(6, 12):02}:{r.choice((10, 40))}"}) for _ in range(r.randint(2, 5))
        ]
        return ([f"{span[0]}-{span[1]}" for span in spans if len(span) > 1],)

    edges = (
        ([],),
        (["00:00-23:59"],),
        (["09:00-10:00", "09:30-10:30"],),
        (["12:00-12:30", "12:30-13:00", "12:00-12:30"],),
        (["05:00-05:10", "21:50-22:00"],),
        (["08:15-11:45", "10:00-10:20", "14:05-15:55"],),
    )
    words = {"open": _time(begin), "close": _time(end), "result": result}
    return Function(source, words, draw, edges)


@function(
    Area.DATES,
    4,
    "A bill of {amount} is due on the {due_th} of every month (on the last day in months that are "
    "shorter){rule}. Return the total paid from first to last (YYYY-MM-DD, both included).",
    "Every month, {amount} is paid on day {due}, or on the last day if the month has fewer days{rule}. How "
    "much is paid in total from first to last (dates as YYYY-MM-DD, both inclusive)?",
    "Add up the monthly payments of {amount} that fall between first and last, both included (YYYY-MM-DD). "
    "They are made on the {due_th}, but never later than the last day of the month{rule}.",
    held_out=True,
)
def monthly_bills(rng: Random) -> Function:
    """Sum monthly payments."""
    amount, due, extra, special = (
        rng.randint(5, 90),
        rng.choice((1, 15, 28, 29, 30, 31)),
        rng.randint(2, 30),
        rng.randint(1, 12),
    )
    rule, code = rng.choice(
        (
            ("", f"{amount}"),
            (
                f"; in {month_name[special]}, it is {extra} more",
                f"{amount} + ({extra} if day.month == {special} else 0)",
            ),
            (
                f"; if that day is a Saturday or Sunday, it is {extra} more",
                f"{amount} + ({extra} if day.weekday() >= 5 else 0)",
            ),
        )
    )
    source = block(f"""
        from calendar import monthrange
        from datetime import date


        def paid(first: str, last: str) -> int:
            begin, end = date.fromisoformat(first), date.fromisoformat(last)
            total = 0
            for year in range(begin.year, end.year + 1):
                for month in range(1, 13):
                    day = date(year, month, min({due}, monthrange(year, month)[1]))
                    if begin <= day <= end:
                        total += {code}
            return total
    """)

    def draw(r: Random) -> Arguments:
        a, b = sorted((day(r, 2019, 2025), day(r, 2019, 2025)))
        return (a.isoformat(), b.isoformat())

    edges = (
        ("2024-02-28", "2024-03-01"),
        (f"2021-05-{due:02}", f"2021-05-{due:02}"),
        ("2021-06-30", "2021-06-01"),
        ("2020-01-01", "2022-12-31"),
        ("2023-02-01", "2023-02-28"),
    )
    return Function(source, {"amount": amount, "due": due, "due_th": nth(due), "rule": rule}, draw, edges)


def _time(minutes: int) -> str:
    return f"{minutes // 60:02}:{minutes % 60:02}"
