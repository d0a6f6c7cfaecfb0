"""Level 3, one table: groups, top k, calendar years and months."""

from __future__ import annotations

from agentgym.procedural import NoFit
from agentgym.tasks.sql.conditions import literal
from agentgym.tasks.sql.domains import ADDITIVE, NUMBERS, Role
from agentgym.tasks.sql.questions import Shape, SQLDraft, family
from agentgym.tasks.sql.scene import HIGH_LOW, MONTHS, SQLScene


@family(
    3,
    "How many {t.many} are there for each {c.label}? Return the {c.label} and the count.",
    "Break the {t.many} down by {c.label}: list each {c.label} with its number of {t.many}.",
    "Count the {t.many} by {c.label}. I need the {c.label} and the count.",
)
def count_per_category(s: SQLScene) -> SQLDraft:
    """Count the rows of each category."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    return SQLDraft(f"SELECT {c}, COUNT(*) FROM {t} GROUP BY {c}", {"t": t, "c": c}, Shape.ROWS)


@family(
    3,
    "What is the average {v.label} of the {t.many} for each {c.label}? Return the {c.label} and the average.",
    "Group the {t.many} by {c.label} and list each {c.label} with its average {v.label}.",
    "For each {c.label}, give me the {c.label} and the mean {v.label} of the {t.many}.",
)
def average_per_category(s: SQLScene) -> SQLDraft:
    """Average a number in each category."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, v = s.category(t, full=True), s.number(t, full=True)
    return SQLDraft(f"SELECT {c}, AVG({v}) FROM {t} GROUP BY {c}", {"t": t, "c": c, "v": v}, Shape.ROWS)


@family(
    3,
    "What is the total {v.label} of the {t.many} for each {c.label}? Return the {c.label} and the total.",
    "Group the {t.many} by {c.label} and list each {c.label} with its total {v.label}.",
    "Add up the {v.plural} of the {t.many} by {c.label}. I need the {c.label} and the sum.",
)
def total_per_category(s: SQLScene) -> SQLDraft:
    """Sum a number in each category."""
    t = s.table(Role.CATEGORY, ADDITIVE)
    c, v = s.category(t, full=True), s.column(t, *ADDITIVE, full=True)
    return SQLDraft(f"SELECT {c}, SUM({v}) FROM {t} GROUP BY {c}", {"t": t, "c": c, "v": v}, Shape.ROWS)


@family(
    3,
    "What is the {high} {v.label} of the {t.many} for each {c.label}? Return the {c.label} and that {v.label}.",
    "Group the {t.many} by {c.label} and list each {c.label} with its {high} {v.label}.",
    "For each {c.label}, give me the {c.label} and the {high} {v.label} of the {t.many}.",
)
def extreme_per_category(s: SQLScene) -> SQLDraft:
    """Find the highest or lowest number in each category."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, v, high = s.category(t, full=True), s.number(t, full=True), s.choice(HIGH_LOW)
    sql = f"SELECT {c}, {high.function}({v}) FROM {t} GROUP BY {c}"
    return SQLDraft(sql, {"t": t, "c": c, "v": v, "high": high.of(v)}, Shape.ROWS)


@family(
    3,
    "For each {c.label}, how many {t.many} are there {f}? Return the {c.label} and the count, leaving out zeros.",
    "Take only the {t.many} {f} and count them by {c.label}. List each {c.label} that occurs, with its count.",
    "How many {t.many} {f} are there per {c.label}? I need the {c.label} and the number, without the "
    "{c.plural} that have none.",
)
def count_per_category_where(s: SQLScene) -> SQLDraft:
    """Count some rows of each category."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    f = s.condition(t, besides=(c,))
    sql = f"SELECT {c}, COUNT(*) FROM {t} WHERE {f.sql()} GROUP BY {c}"
    return SQLDraft(sql, {"t": t, "c": c, "f": f}, Shape.ROWS)


@family(
    3,
    "Which {c.label} is the most common among the {t.many}?",
    "Which {c.label} do more {t.many} have than any other?",
    "Which {c.label} occurs most often among the {t.many}?",
)
def top_category(s: SQLScene) -> SQLDraft:
    """Find the category with the most rows."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    return SQLDraft(
        f"SELECT {c} FROM {t} GROUP BY {c} ORDER BY COUNT(*) DESC LIMIT 1",
        {"t": t, "c": c},
        distinct=f"SELECT COUNT(*) FROM {t} GROUP BY {c} ORDER BY COUNT(*) DESC LIMIT 2",
    )


@family(
    3,
    "Which {c.label} has the highest total {v.label} across its {t.many}?",
    "Add up the {v.plural} of the {t.many} by {c.label}. Which {c.label} comes out highest? Return just the {c.label}.",
    "For which {c.label} do the {t.many} have the highest total {v.label}?",
)
def top_category_total(s: SQLScene) -> SQLDraft:
    """Find the category with the highest sum."""
    t = s.table(Role.CATEGORY, ADDITIVE)
    c, v = s.category(t, full=True), s.column(t, *ADDITIVE, full=True)
    return SQLDraft(
        f"SELECT {c} FROM {t} GROUP BY {c} ORDER BY SUM({v}) DESC LIMIT 1",
        {"t": t, "c": c, "v": v},
        distinct=f"SELECT SUM({v}) FROM {t} GROUP BY {c} ORDER BY SUM({v}) DESC LIMIT 2",
    )


@family(
    3,
    "List the {n.plural} of the {k} {t.many} with the {high} {c.plural}, {high} first.",
    "Which {k} {t.many} have the {high} {c.plural}? Return their {n.plural}, sorted from {high} to "
    "{high.other} {c.label}.",
    "Give me the {k} {t.many} with the {high} {c.plural}: only their {n.plural}, sorted with the {high} "
    "{c.label} at the top.",
)
def top_k(s: SQLScene) -> SQLDraft:
    """List the k rows with the highest or lowest numbers."""
    t = s.table(NUMBERS)
    c, n, k, high = s.number(t, full=True), t.identity, s.rng.randint(2, 6), s.choice(HIGH_LOW)
    return SQLDraft(
        f"SELECT {n} FROM {t} ORDER BY {c} {high.order} LIMIT {k}",
        {"t": t, "n": n, "c": c, "k": k, "high": high.of(c)},
        Shape.ROWS,
        ordered=True,
        distinct=f"SELECT {c} FROM {t} ORDER BY {c} {high.order} LIMIT {k + 1}",
    )


@family(
    3,
    "Of the {t.many} {f}, which {k} have the {high} {c.plural}? Return their {n.plural}, {high} {c.label} first.",
    "Looking only at the {t.many} {f}, list the {n.plural} of the {k} with the {high} {c.plural}, sorted "
    "from {high} to {high.other}.",
    "Give me the {n.plural} of the {k} {t.many} with the {high} {c.plural}, counting only {t.many} {f}. "
    "Sort them by {c.label}, {high} first.",
)
def top_k_where(s: SQLScene) -> SQLDraft:
    """List the top k of some rows."""
    t = s.table(NUMBERS)
    c, n, k, high = s.number(t, full=True), t.identity, s.rng.randint(2, 5), s.choice(HIGH_LOW)
    f = s.condition(t, besides=(c,))
    rest = f"FROM {t} WHERE {f.sql()} ORDER BY {c} {high.order} LIMIT"
    return SQLDraft(
        f"SELECT {n} {rest} {k}",
        {"t": t, "n": n, "c": c, "f": f, "k": k, "high": high.of(c)},
        Shape.ROWS,
        ordered=True,
        distinct=f"SELECT {c} {rest} {k + 1}",
    )


@family(
    3,
    "Which {c.plural} do at least {k} {t.many} have?",
    "List every {c.label} that {k} or more {t.many} share.",
    "Which {c.plural} occur at least {k} times among the {t.many}?",
)
def having_count(s: SQLScene) -> SQLDraft:
    """List the categories that have enough rows."""
    t = s.table(Role.CATEGORY)
    c, k = s.category(t, full=True), s.rng.randint(3, 15)
    return SQLDraft(f"SELECT {c} FROM {t} GROUP BY {c} HAVING COUNT(*) >= {k}", {"t": t, "c": c, "k": k}, Shape.ANY)


@family(
    3,
    "Which {c.plural} occur among the {t.many} {f}? List each one once.",
    "What are the distinct {c.plural} of the {t.many} {f}?",
    "Looking only at the {t.many} {f}, which different {c.plural} are there?",
)
def distinct_where(s: SQLScene) -> SQLDraft:
    """List the distinct categories of some rows."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    f = s.condition(t, besides=(c,))
    return SQLDraft(f"SELECT DISTINCT {c} FROM {t} WHERE {f.sql()}", {"t": t, "c": c, "f": f}, Shape.ROWS)


@family(
    3,
    "How many {t.many} are there for each year of their {c.label}? Return the year and the count, leaving out zeros.",
    "Group the {t.many} by the year of their {c.label} and list each year that occurs with its number of {t.many}.",
    "Count the {t.many} by the calendar year of the {c.label}. I need the year and the count, without years that have "
    "none.",
)
def count_per_year(s: SQLScene) -> SQLDraft:
    """Count the rows of each calendar year."""
    t = s.table(Role.DATE)
    c = s.column(t, Role.DATE, full=True)
    return SQLDraft(f"SELECT YEAR({c}), COUNT(*) FROM {t} GROUP BY YEAR({c})", {"t": t, "c": c}, Shape.ROWS)


@family(
    3,
    "How many {t.many} have {c.a} in {m}, whatever the year?",
    "Count the {t.many} whose {c.label} falls in {m} of any year.",
    "Across all years, how many {t.many} have {c.a} in {m}?",
)
def count_in_month(s: SQLScene) -> SQLDraft:
    """Count the rows of one month, over all years."""
    t = s.table(Role.DATE)
    c = s.column(t, Role.DATE)
    month = s.rng.randint(1, 12)
    sql = f"SELECT COUNT(*) FROM {t} WHERE MONTH({c}) = {month}"
    return SQLDraft(sql, {"t": t, "c": c, "m": MONTHS[month - 1]})


@family(
    3,
    "Which {t.many} have {c.a} between {v} and {w}, both days included? Return their {n.plural}.",
    "List the {n.plural} of the {t.many} whose {c.label} is no earlier than {v} and no later than {w}.",
    "I need the {n.label} of every {t.one} with {c.a} from {v} to {w} (inclusive).",
)
def list_between_days(s: SQLScene) -> SQLDraft:
    """List the rows between two days."""
    t = s.table(Role.DATE)
    c, n = s.column(t, Role.DATE), t.identity
    v, w = sorted((s.day(c), s.day(c)))
    if v == w:
        raise NoFit
    sql = f"SELECT {n} FROM {t} WHERE {c} BETWEEN {literal(v)} AND {literal(w)}"
    return SQLDraft(sql, {"t": t, "n": n, "c": c, "v": v, "w": w}, Shape.PART)


@family(
    3,
    "Among the {t.many} {f}, how many days pass from the earliest to the latest {c.label}?",
    "How many days is it from the first to the last {c.label} of the {t.many} {f}?",
    "Looking only at the {t.many} {f}, how many days after the earliest {c.label} is the latest one?",
)
def days_spanned(s: SQLScene) -> SQLDraft:
    """Count the days from the first to the last date."""
    t = s.table(Role.DATE)
    c = s.column(t, Role.DATE)
    f = s.condition(t, besides=(c,))
    sql = f"SELECT DATE_DIFF('day', MIN({c}), MAX({c})) FROM {t} WHERE {f.sql()}"
    return SQLDraft(sql, {"t": t, "c": c, "f": f})
