"""Level 3, one table: groups, top k, calendar years and months."""

from __future__ import annotations

from agentgym.procedural import NoFit
from agentgym.tasks.sql.conditions import literal
from agentgym.tasks.sql.domains import ADDITIVE, NUMBERS, Role
from agentgym.tasks.sql.questions import Draft, Shape, family
from agentgym.tasks.sql.scene import HIGH_LOW, MONTHS, Scene


@family(
    3,
    "For each {c.label}, count the {t.many}. Show the {c.label} and the count.",
    "How many {t.many} are there per {c.label}? Give the {c.label} and the number.",
    "Show every {c.label} of the {t.many} together with its number of {t.many}.",
)
def count_per_category(s: Scene) -> Draft:
    """Count the rows of each category."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    return Draft(f"SELECT {c}, COUNT(*) FROM {t} GROUP BY {c}", {"t": t, "c": c}, Shape.ROWS)


@family(
    3,
    "For each {c.label} of the {t.many}, show the {c.label} and the average {v.label}.",
    "What is the average {v.label} of the {t.many} per {c.label}? Give the {c.label} and the average.",
    "Show every {c.label} of the {t.many} together with their average {v.label}.",
)
def average_per_category(s: Scene) -> Draft:
    """Average a number in each category."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, v = s.category(t, full=True), s.number(t, full=True)
    return Draft(f"SELECT {c}, AVG({v}) FROM {t} GROUP BY {c}", {"t": t, "c": c, "v": v}, Shape.ROWS)


@family(
    3,
    "For each {c.label} of the {t.many}, show the {c.label} and the total {v.label}.",
    "What is the total {v.label} of the {t.many} per {c.label}? Give the {c.label} and the total.",
    "Show every {c.label} of the {t.many} together with the sum of their {v.plural}.",
)
def total_per_category(s: Scene) -> Draft:
    """Sum a number in each category."""
    t = s.table(Role.CATEGORY, ADDITIVE)
    c, v = s.category(t, full=True), s.column(t, *ADDITIVE, full=True)
    return Draft(f"SELECT {c}, SUM({v}) FROM {t} GROUP BY {c}", {"t": t, "c": c, "v": v}, Shape.ROWS)


@family(
    3,
    "For each {c.label} of the {t.many}, show the {c.label} and the {high} {v.label}.",
    "What is the {high} {v.label} of the {t.many} per {c.label}? Give the {c.label} and the {high} {v.label}.",
    "Show every {c.label} of the {t.many} together with the {high} {v.label} found there.",
)
def extreme_per_category(s: Scene) -> Draft:
    """Find the highest or lowest number in each category."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, v, high = s.category(t, full=True), s.number(t, full=True), s.choice(HIGH_LOW)
    sql = f"SELECT {c}, {high.function}({v}) FROM {t} GROUP BY {c}"
    return Draft(sql, {"t": t, "c": c, "v": v, "high": high}, Shape.ROWS)


@family(
    3,
    "For each {c.label}, count the {t.many} {f}. Leave out {c.plural} without any. Show the {c.label} and the count.",
    "How many {t.many} {f} are there per {c.label}? Give the {c.label} and the number, without zeros.",
    "Show every {c.label} of {t.many} {f} together with the number of such {t.many}.",
)
def count_per_category_where(s: Scene) -> Draft:
    """Count some rows of each category."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    f = s.condition(t, besides=(c,))
    sql = f"SELECT {c}, COUNT(*) FROM {t} WHERE {f.sql()} GROUP BY {c}"
    return Draft(sql, {"t": t, "c": c, "f": f}, Shape.ROWS)


@family(
    3,
    "Which {c.label} has the most {t.many}?",
    "What is the most frequent {c.label} of the {t.many}?",
    "Give the {c.label} that the largest number of {t.many} share.",
)
def top_category(s: Scene) -> Draft:
    """Find the category with the most rows."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    return Draft(
        f"SELECT {c} FROM {t} GROUP BY {c} ORDER BY COUNT(*) DESC LIMIT 1",
        {"t": t, "c": c},
        distinct=f"SELECT COUNT(*) FROM {t} GROUP BY {c} ORDER BY COUNT(*) DESC LIMIT 2",
    )


@family(
    3,
    "Which {c.label} has the highest total {v.label} of its {t.many}?",
    "For which {c.label} is the total {v.label} of the {t.many} the highest? Give the {c.label}.",
    "Give the {c.label} whose {t.many} have the highest total {v.label}.",
)
def top_category_total(s: Scene) -> Draft:
    """Find the category with the highest sum."""
    t = s.table(Role.CATEGORY, ADDITIVE)
    c, v = s.category(t, full=True), s.column(t, *ADDITIVE, full=True)
    return Draft(
        f"SELECT {c} FROM {t} GROUP BY {c} ORDER BY SUM({v}) DESC LIMIT 1",
        {"t": t, "c": c, "v": v},
        distinct=f"SELECT SUM({v}) FROM {t} GROUP BY {c} ORDER BY SUM({v}) DESC LIMIT 2",
    )


@family(
    3,
    "List the {n.plural} of the {k} {t.many} with the {high} {c.label}, ordered from {high} to {high.other}.",
    "Which {k} {t.many} have the {high} {c.plural}? Give the {n.label}, ordered by {c.label}, {high} first.",
    "Show the {n.label} of the {k} {t.many} that have the {high} {c.plural}, ordered with the {high} first.",
)
def top_k(s: Scene) -> Draft:
    """List the k rows with the highest or lowest numbers."""
    t = s.table(NUMBERS)
    c, n, k, high = s.number(t, full=True), t.identity, s.rng.randint(2, 6), s.choice(HIGH_LOW)
    return Draft(
        f"SELECT {n} FROM {t} ORDER BY {c} {high.order} LIMIT {k}",
        {"t": t, "n": n, "c": c, "k": k, "high": high},
        Shape.ROWS,
        ordered=True,
        distinct=f"SELECT {c} FROM {t} ORDER BY {c} {high.order} LIMIT {k + 1}",
    )


@family(
    3,
    "Among the {t.many} {f}, list the {n.plural} of the {k} with the {high} {c.label}, "
    "ordered from {high} to {high.other}.",
    "Of the {t.many} {f}, which {k} have the {high} {c.plural}? Give the {n.label}, ordered with the {high} first.",
    "Show the {n.label} of the {k} {t.many} with the {high} {c.label}, counting only {t.many} {f}, "
    "ordered with the {high} first.",
)
def top_k_where(s: Scene) -> Draft:
    """List the top k of some rows."""
    t = s.table(NUMBERS)
    c, n, k, high = s.number(t, full=True), t.identity, s.rng.randint(2, 5), s.choice(HIGH_LOW)
    f = s.condition(t, besides=(c,))
    rest = f"FROM {t} WHERE {f.sql()} ORDER BY {c} {high.order} LIMIT"
    return Draft(
        f"SELECT {n} {rest} {k}",
        {"t": t, "n": n, "c": c, "f": f, "k": k, "high": high},
        Shape.ROWS,
        ordered=True,
        distinct=f"SELECT {c} {rest} {k + 1}",
    )


@family(
    3,
    "Which {c.plural} have at least {k} {t.many}?",
    "List the {c.plural} that at least {k} {t.many} share.",
    "Show every {c.label} that occurs for {k} or more {t.many}.",
)
def having_count(s: Scene) -> Draft:
    """List the categories that have enough rows."""
    t = s.table(Role.CATEGORY)
    c, k = s.category(t, full=True), s.rng.randint(3, 15)
    return Draft(f"SELECT {c} FROM {t} GROUP BY {c} HAVING COUNT(*) >= {k}", {"t": t, "c": c, "k": k}, Shape.ANY)


@family(
    3,
    "List the different {c.plural} of the {t.many} {f}.",
    "Which different {c.plural} occur among the {t.many} {f}?",
    "Show every {c.label} of the {t.many} {f} once.",
)
def distinct_where(s: Scene) -> Draft:
    """List the distinct categories of some rows."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    f = s.condition(t, besides=(c,))
    return Draft(f"SELECT DISTINCT {c} FROM {t} WHERE {f.sql()}", {"t": t, "c": c, "f": f}, Shape.ROWS)


@family(
    3,
    "For each year, count the {t.many} by their {c.label}. Show the year and the count.",
    "How many {t.many} are there per calendar year of the {c.label}? Give the year and the number.",
    "Show every year in which some {t.one} has its {c.label}, together with the number of such {t.many}.",
)
def count_per_year(s: Scene) -> Draft:
    """Count the rows of each calendar year."""
    t = s.table(Role.DATE)
    c = s.column(t, Role.DATE, full=True)
    return Draft(f"SELECT YEAR({c}), COUNT(*) FROM {t} GROUP BY YEAR({c})", {"t": t, "c": c}, Shape.ROWS)


@family(
    3,
    "How many {t.many} have {c.a} in {m} (of any year)?",
    "Count the {t.many} whose {c.label} is in {m}, whatever the year.",
    "What is the number of {t.many} with {c.a} in the month of {m}, in any year?",
)
def count_in_month(s: Scene) -> Draft:
    """Count the rows of one month, over all years."""
    t = s.table(Role.DATE)
    c = s.column(t, Role.DATE)
    month = s.rng.randint(1, 12)
    sql = f"SELECT COUNT(*) FROM {t} WHERE MONTH({c}) = {month}"
    return Draft(sql, {"t": t, "c": c, "m": MONTHS[month - 1]})


@family(
    3,
    "List the {n.plural} of the {t.many} whose {c.label} is from {v} to {w} (both days included).",
    "Which {t.many} have {c.a} between {v} and {w} (inclusive)? Give the {n.label}.",
    "Show the {n.label} of every {t.one} with {c.a} no earlier than {v} and no later than {w}.",
)
def list_between_days(s: Scene) -> Draft:
    """List the rows between two days."""
    t = s.table(Role.DATE)
    c, n = s.column(t, Role.DATE), t.identity
    v, w = sorted((s.day(c), s.day(c)))
    if v == w:
        raise NoFit
    sql = f"SELECT {n} FROM {t} WHERE {c} BETWEEN {literal(v)} AND {literal(w)}"
    return Draft(sql, {"t": t, "n": n, "c": c, "v": v, "w": w}, Shape.PART)


@family(
    3,
    "How many days lie between the earliest and the latest {c.label} of the {t.many} {f}?",
    "Among the {t.many} {f}, how many days after the earliest {c.label} is the latest one?",
    "Give the number of days from the first to the last {c.label} of the {t.many} {f}.",
)
def days_spanned(s: Scene) -> Draft:
    """Count the days from the first to the last date."""
    t = s.table(Role.DATE)
    c = s.column(t, Role.DATE)
    f = s.condition(t, besides=(c,))
    sql = f"SELECT DATE_DIFF('day', MIN({c}), MAX({c})) FROM {t} WHERE {f.sql()}"
    return Draft(sql, {"t": t, "c": c, "f": f})
