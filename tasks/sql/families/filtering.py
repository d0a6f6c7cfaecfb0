"""Level 2: one table, several conditions, missing values, dates, order."""

from __future__ import annotations

from agentgym.procedural import NoFit
from agentgym.tasks.sql.conditions import literal
from agentgym.tasks.sql.domains import ADDITIVE, NUMBERS, Role
from agentgym.tasks.sql.questions import Shape, SQLDraft, family
from agentgym.tasks.sql.scene import HIGH_LOW, SQLScene


@family(
    2,
    "List the {n.plural} of the {t.many} {f} and {g}.",
    "I'm looking for the {t.many} {f} and {g}. What are their {n.plural}?",
    "Find every {t.one} {f.one} and {g.one}, and return the {n.label}.",
    "Give me the {n.plural} of all {t.many} {f} and {g}.",
)
def list_both(s: SQLScene) -> SQLDraft:
    """List the rows that meet two conditions."""
    t = s.table()
    f, g = s.two_conditions(t)
    words = {"t": t, "n": t.identity, "f": f, "g": g}
    return SQLDraft(f"SELECT {t.identity} FROM {t} WHERE {f.sql()} AND {g.sql()}", words, Shape.PART)


@family(
    2,
    "How many {t.many} are there {f} and {g}?",
    "Count the {t.many} {f} and {g}.",
    "What's the number of {t.many} {f} and {g}?",
)
def count_both(s: SQLScene) -> SQLDraft:
    """Count the rows that meet two conditions."""
    t = s.table()
    f, g = s.two_conditions(t)
    return SQLDraft(f"SELECT COUNT(*) FROM {t} WHERE {f.sql()} AND {g.sql()}", {"t": t, "f": f, "g": g})


@family(
    2,
    'How many {t.many} have either "{v}" or "{w}" as their {c.label}?',
    "Count the {t.many} whose {c.label} is {v} or {w}.",
    "How many {t.many} are there whose {c.label} is one of {v} and {w}?",
)
def count_either_value(s: SQLScene) -> SQLDraft:
    """Count the rows with one of two values of a category."""
    t = s.table(Role.CATEGORY)
    c = s.category(t)
    v, w = s.two_values(c)
    sql = f"SELECT COUNT(*) FROM {t} WHERE {c} IN ({literal(v)}, {literal(w)})"
    return SQLDraft(sql, {"t": t, "c": c, "v": v, "w": w})


@family(
    2,
    "List the {n.plural} of the {t.many} {f} or {g} (or both).",
    "I need the {n.plural} of all {t.many} {f} or {g}, including those for which both hold.",
    "Find every {t.one} {f.one} or {g.one}; one of the two is enough. Return the {n.label}.",
)
def list_either(s: SQLScene) -> SQLDraft:
    """List the rows that meet at least one of two conditions."""
    t = s.table()
    f, g = s.two_conditions(t)
    words = {"t": t, "n": t.identity, "f": f, "g": g}
    return SQLDraft(f"SELECT {t.identity} FROM {t} WHERE {f.sql()} OR {g.sql()}", words, Shape.PART)


@family(
    2,
    "How many {t.many} have {c.a} between {v} and {w}, both included?",
    "Count the {t.many} whose {c.label} is between {v} and {w} (inclusive).",
    "How many of the {t.many} have {c.a} of at least {v} and at most {w}?",
)
def count_between(s: SQLScene) -> SQLDraft:
    """Count the rows within a range of numbers."""
    t = s.table((*NUMBERS, Role.YEAR))
    c = s.column(t, *NUMBERS, Role.YEAR)
    v, w = sorted((s.threshold(c), s.threshold(c)))
    if v == w:
        raise NoFit
    return SQLDraft(f"SELECT COUNT(*) FROM {t} WHERE {c} BETWEEN {v} AND {w}", {"t": t, "c": c, "v": v, "w": w})


@family(
    2,
    "What is the average {c.label} of the {t.many} {f}?",
    "What's the mean {c.label} of {t.many} {f.brief}?",
    "Looking only at the {t.many} {f}, what is their average {c.label}?",
    "I'd like to know the average {c.label} across all {t.many} {f}.",
)
def average_where(s: SQLScene) -> SQLDraft:
    """Average a number over some rows."""
    t = s.table(NUMBERS)
    c = s.number(t)
    f = s.condition(t, besides=(c,))
    return SQLDraft(f"SELECT AVG({c}) FROM {t} WHERE {f.sql()}", {"t": t, "c": c, "f": f})


@family(
    2,
    "What is the total {c.label} of the {t.many} {f}?",
    "What do the {c.plural} of all {t.many} {f.brief} add up to?",
    "Looking only at the {t.many} {f}, what is their total {c.label}?",
)
def total_where(s: SQLScene) -> SQLDraft:
    """Sum a number over some rows."""
    t = s.table(ADDITIVE)
    c = s.column(t, *ADDITIVE)
    f = s.condition(t, besides=(c,))
    return SQLDraft(f"SELECT SUM({c}) FROM {t} WHERE {f.sql()}", {"t": t, "c": c, "f": f})


@family(
    2,
    "What is the {high} {c.label} of the {t.many} {f}?",
    "Among the {t.many} {f}, what is the {high} {c.label}?",
    "Find the {high} {c.label} of any {t.one} {f.brief_one}.",
)
def extreme_where(s: SQLScene) -> SQLDraft:
    """Find the highest or lowest value over some rows."""
    t = s.table(NUMBERS)
    c = s.number(t)
    f = s.condition(t, besides=(c,))
    high = s.choice(HIGH_LOW)
    return SQLDraft(
        f"SELECT {high.function}({c}) FROM {t} WHERE {f.sql()}", {"t": t, "c": c, "f": f, "high": high.of(c)}
    )


@family(
    2,
    "List the {n.plural} of the {t.many} {f}, {high} {c.label} first.",
    "Find all {t.many} {f} and return their {n.plural}, sorted from {high} to {high.other} {c.label}.",
    "Give me the {n.label} of every {t.one} {f.one}, sorted by {c.label} with the {high} at the top.",
)
def list_sorted(s: SQLScene) -> SQLDraft:
    """List some rows, sorted by a number."""
    t = s.table(NUMBERS)
    c, n = s.number(t, full=True), t.identity
    f = s.condition(t, besides=(c,))
    high = s.choice(HIGH_LOW)
    return SQLDraft(
        f"SELECT {n} FROM {t} WHERE {f.sql()} ORDER BY {c} {high.order}",
        {"t": t, "n": n, "c": c, "f": f, "high": high.of(c)},
        Shape.ROWS,
        ordered=True,
        distinct=f"SELECT {c} FROM {t} WHERE {f.sql()}",
    )


@family(
    2,
    "Which {t.one} has the {high} {c.label}? Return the {n.label}.",
    "What is the {n.label} of the {t.one} with the {high} {c.label}?",
    "I'm looking for the {t.one} with the {high} {c.label}. What is {t.its} {n.label}?",
)
def top_one(s: SQLScene) -> SQLDraft:
    """Find the row with the highest or lowest number."""
    t = s.table(NUMBERS)
    c, n, high = s.number(t, full=True), t.identity, s.choice(HIGH_LOW)
    return SQLDraft(
        f"SELECT {n} FROM {t} ORDER BY {c} {high.order} LIMIT 1",
        {"t": t, "n": n, "c": c, "high": high.of(c)},
        distinct=f"SELECT {c} FROM {t} ORDER BY {c} {high.order} LIMIT 2",
    )


@family(
    2,
    "How many {t.many} have no {c.label} on record?",
    "For how many {t.many} is the {c.label} missing?",
    "Count the {t.many} for which no {c.label} is recorded.",
)
def count_missing(s: SQLScene) -> SQLDraft:
    """Count the rows that lack a value."""
    t = s.table()
    c = s.choice([c for c in t.columns if c.nullable])
    return SQLDraft(f"SELECT COUNT(*) FROM {t} WHERE {c} IS NULL", {"t": t, "c": c})


@family(
    2,
    "Which {t.many} {f} have no {c.label} on record? Return their {n.plural}.",
    "List the {n.plural} of the {t.many} {f} and {t.who} have no {c.label} on file.",
    "Among the {t.many} {f}, for which ones is the {c.label} missing? I need their {n.plural}.",
)
def list_missing(s: SQLScene) -> SQLDraft:
    """List some rows that lack a value."""
    t = s.table()
    c = s.choice([c for c in t.columns if c.nullable])
    f = s.condition(t, besides=(c,))
    words = {"t": t, "n": t.identity, "c": c, "f": f}
    return SQLDraft(f"SELECT {t.identity} FROM {t} WHERE {f.sql()} AND {c} IS NULL", words, Shape.PART)


@family(
    2,
    "How many {t.many} have {c.a} other than {v}?",
    "Count the {t.many} whose {c.label} is not {v}.",
    "How many {t.many} are there whose {c.label} is anything but {v}?",
)
def count_unequal(s: SQLScene) -> SQLDraft:
    """Count the rows without one value of a category."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    v = s.value(c)
    return SQLDraft(f"SELECT COUNT(*) FROM {t} WHERE {c} <> {literal(v)}", {"t": t, "c": c, "v": v})


@family(
    2,
    "How many {t.many} are there {f}?",
    "Count the {t.many} {f}.",
    "How many {t.many} do we have {f.brief}?",
)
def count_dated(s: SQLScene) -> SQLDraft:
    """Count the rows before or after a day."""
    t = s.table(Role.DATE)
    f = s.dated(s.column(t, Role.DATE))
    return SQLDraft(f"SELECT COUNT(*) FROM {t} WHERE {f.sql()}", {"t": t, "f": f})


@family(
    2,
    "How many {t.many} have {c.a} in {v}?",
    "Count the {t.many} whose {c.label} falls in {v}.",
    "For how many {t.many} is the {c.label} in the year {v}?",
)
def count_in_year(s: SQLScene) -> SQLDraft:
    """Count the rows of a calendar year."""
    t = s.table(Role.DATE)
    c = s.column(t, Role.DATE)
    v = s.value(c).year
    return SQLDraft(f"SELECT COUNT(*) FROM {t} WHERE YEAR({c}) = {v}", {"t": t, "c": c, "v": v})


@family(
    2,
    "List the {n.plural} of the {t.many} whose {c.label} falls in {v}.",
    "Which {t.many} have {c.a} in {v}? Return their {n.plural}.",
    "I need the {n.label} of every {t.one} whose {c.label} is in the year {v}.",
)
def list_in_year(s: SQLScene) -> SQLDraft:
    """List the rows of a calendar year."""
    t = s.table(Role.DATE)
    c, n = s.column(t, Role.DATE), t.identity
    v = s.value(c).year
    return SQLDraft(f"SELECT {n} FROM {t} WHERE YEAR({c}) = {v}", {"t": t, "n": n, "c": c, "v": v}, Shape.PART)


@family(
    2,
    "What is the {late} {c.label} of the {t.many} {f}?",
    "Looking only at the {t.many} {f}, what is their {late} {c.label}?",
    "Find the {late} {c.label} of any {t.one} {f.brief_one}.",
)
def extreme_date(s: SQLScene) -> SQLDraft:
    """Find the first or last day over some rows."""
    t = s.table(Role.DATE)
    c = s.column(t, Role.DATE)
    f = s.condition(t, besides=(c,))
    late, function = s.choice((("latest", "MAX"), ("earliest", "MIN")))
    return SQLDraft(f"SELECT {function}({c}) FROM {t} WHERE {f.sql()}", {"t": t, "c": c, "f": f, "late": late})


@family(
    2,
    'Which {t.many} have {n.a} that starts with "{v}"? Return their {n.plural}.',
    'List every {t.one} {n.label} that begins with "{v}".',
    'Find all {t.many} whose {n.label} starts with the letter "{v}" and return their {n.plural}.',
)
def starts_with(s: SQLScene) -> SQLDraft:
    """List the names that start with a given letter."""
    t = s.named_table()
    n = t.identity
    v = s.value(n)[0]
    others = [name[0] for name in s.world.values(n)]
    if not (v.isascii() and v.isupper()) or v.lower() in others:
        raise NoFit
    return SQLDraft(f"SELECT {n} FROM {t} WHERE {n} LIKE '{v}%'", {"t": t, "n": n, "v": v}, Shape.PART)


@family(
    2,
    "List the {n.label} and the {c.label} of every {t.one} {f.one}.",
    "For each {t.one} {f.one}, return the {n.label} and the {c.label}.",
    "I need two columns for the {t.many} {f}: {n.label} and {c.label}.",
)
def list_two_columns(s: SQLScene) -> SQLDraft:
    """List two columns of some rows."""
    t = s.table()
    f = s.condition(t)
    c = s.column(t, *NUMBERS, Role.CATEGORY, Role.DATE, Role.YEAR, full=True, besides=(f.column,))
    words = {"t": t, "n": t.identity, "c": c, "f": f}
    return SQLDraft(f"SELECT {t.identity}, {c} FROM {t} WHERE {f.sql()}", words, Shape.PART)
