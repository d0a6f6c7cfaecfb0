"""Level 4, one table: subqueries, set operations, shares, runners-up, groups chosen by their content."""

from __future__ import annotations

from agentgym.procedural import NoFit
from agentgym.tasks.sql.conditions import literal
from agentgym.tasks.sql.domains import ADDITIVE, NUMBERS, Role
from agentgym.tasks.sql.questions import Shape, SQLDraft, family
from agentgym.tasks.sql.scene import HIGH_LOW, SQLScene


@family(
    4,
    "Which {t.many} have {c.a} {above} the average of all {t.many}? Return their {n.plural}.",
    "List the {n.plural} of the {t.many} whose {c.label} is {above} average.",
    "I need the {n.label} of every {t.one} whose {c.label} is {above} the mean {c.label} of all {t.many}.",
)
def beyond_average(s: SQLScene) -> SQLDraft:
    """List the rows above or below the average."""
    t = s.table(NUMBERS)
    c, n = s.number(t), t.identity
    above, sign = s.choice((("above", ">"), ("below", "<")))
    sql = f"SELECT {n} FROM {t} WHERE {c} {sign} (SELECT AVG({c}) FROM {t})"
    return SQLDraft(sql, {"t": t, "n": n, "c": c, "above": above}, Shape.PART)


@family(
    4,
    "How many of all {t.many} have {c.a} {above} the average {c.label} of the {t.many} {f}?",
    "Take the average {c.label} of the {t.many} {f}. How many {t.many} in total have {c.a} {above} that?",
    "Compare every {t.one} with the average {c.label} of the {t.many} {f}: how many have {c.a} {above} it?",
)
def count_beyond_average_of(s: SQLScene) -> SQLDraft:
    """Count the rows above or below the average of some rows."""
    t = s.table(NUMBERS)
    c = s.number(t)
    f = s.condition(t, besides=(c,))
    above, sign = s.choice((("above", ">"), ("below", "<")))
    sql = f"SELECT COUNT(*) FROM {t} WHERE {c} {sign} (SELECT AVG({c}) FROM {t} WHERE {f.sql()})"
    return SQLDraft(sql, {"t": t, "c": c, "f": f, "above": above})


@family(
    4,
    "How many {t.many} have {c.a} {above} that of the {t.one} {v}?",
    "Count the {t.many} whose {c.label} is {above} the {c.label} of the {t.one} {v}.",
    "Look up the {c.label} of the {t.one} {v}. How many {t.many} have {c.a} {above} it?",
)
def count_beyond_row(s: SQLScene) -> SQLDraft:
    """Count the rows above or below a named row."""
    t = s.named_table(NUMBERS)
    c, n = s.number(t), t.identity
    v = s.value(n)
    above, sign = s.choice((("above", ">"), ("below", "<")))
    sql = f"SELECT COUNT(*) FROM {t} WHERE {c} {sign} (SELECT {c} FROM {t} WHERE {n} = {literal(v)})"
    return SQLDraft(sql, {"t": t, "c": c, "n": n, "v": v, "above": above})


@family(
    4,
    "Which {c.plural} occur both among the {t.many} {f} and among the {t.many} {g}? List each one once.",
    "List every {c.label} that has at least one {t.one} {f.one} and at least one {t.one} {g.one}, each {c.label} once.",
    "Compare the {c.plural} of the {t.many} {f} with those of the {t.many} {g}. Which ones do the two "
    "groups have in common? List each one once.",
)
def intersect(s: SQLScene) -> SQLDraft:
    """List the categories that two sets of rows share."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    f, g = s.two_conditions(t, besides=(c,))
    sql = f"SELECT {c} FROM {t} WHERE {f.sql()} INTERSECT SELECT {c} FROM {t} WHERE {g.sql()}"
    return SQLDraft(sql, {"t": t, "c": c, "f": f, "g": g}, Shape.ANY)


@family(
    4,
    "Which {c.plural} occur among the {t.many} {f} but not among the {t.many} {g}? List each one once.",
    "List the distinct {c.plural} of the {t.many} {f}, leaving out any {c.label} that also occurs among the "
    "{t.many} {g}.",
    "I need every {c.label} that has at least one {t.one} {f.one} but no {t.one} {g.one}, each {c.label} once.",
)
def set_difference(s: SQLScene) -> SQLDraft:
    """List the categories of some rows that other rows do not have."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    f = s.condition(t, besides=(c,))
    g = s.condition(t, besides=(c, f.column))
    sql = f"SELECT {c} FROM {t} WHERE {f.sql()} EXCEPT SELECT {c} FROM {t} WHERE {g.sql()}"
    return SQLDraft(sql, {"t": t, "c": c, "f": f, "g": g}, Shape.ANY)


@family(
    4,
    "Which {c.plural} do the {t.many} {f} and the {u.many} {g} have between them? List each one once.",
    "List every {c.label} that occurs among the {t.many} {f}, among the {u.many} {g}, or both, each one once.",
    "Combine the {c.plural} of the {t.many} {f} with those of the {u.many} {g} into one list without duplicates.",
)
def union_of_tables(s: SQLScene) -> SQLDraft:
    """List the distinct categories of the rows of two tables."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    later = s.world.domain.tables[s.world.domain.tables.index(t) + 1 :]
    d = s.choice([d for u in later for d in u.of(Role.CATEGORY) if d.label == c.label and not d.nullable])
    u = next(u for u in later if u.name == d.table)
    f, g = s.condition(t, besides=(c,)), s.condition(u, besides=(d,))
    sql = f"SELECT {c} FROM {t} WHERE {f.sql()} UNION SELECT {d} FROM {u} WHERE {g.sql()}"
    return SQLDraft(sql, {"t": t, "c": c, "f": f, "u": u, "d": d, "g": g}, Shape.ROWS)


@family(
    4,
    "What percentage (0 to 100) of all {t.many} do the {t.many} {f} make up?",
    "Count the {t.many} {f}. What percentage of all {t.many} is that? Give a number from 0 to 100.",
    "I need the share of {t.many} {f.brief} among all {t.many}, as a percentage from 0 to 100.",
)
def share_of_rows(s: SQLScene) -> SQLDraft:
    """Find the percentage of rows that meet a condition."""
    t = s.table()
    f = s.condition(t)
    return SQLDraft(f"SELECT 100.0 * SUM(CASE WHEN {f.sql()} THEN 1 ELSE 0 END) / COUNT(*) FROM {t}", {"t": t, "f": f})


@family(
    4,
    "What percentage (0 to 100) of the total {c.label} of all {t.many} comes from the {t.many} {f}?",
    "Take the total {c.label} of all {t.many}. What percentage of it (0 to 100) comes from the {t.many} {f}?",
    "I need the share of {t.many} {f.brief} in the total {c.label} of all {t.many}, as a percentage from 0 to 100.",
)
def share_of_total(s: SQLScene) -> SQLDraft:
    """Find the percentage of a sum that some rows make up."""
    t = s.table(ADDITIVE)
    c = s.column(t, *ADDITIVE)
    f = s.condition(t, besides=(c,))
    sql = f"SELECT 100.0 * SUM(CASE WHEN {f.sql()} THEN {c} ELSE 0 END) / SUM({c}) FROM {t}"
    return SQLDraft(sql, {"t": t, "c": c, "f": f})


@family(
    4,
    "Which {t.one} has the {rank} {high} {c.label}? Return the {n.label}.",
    "What is the {n.label} of the {t.one} with the {rank} {high} {c.label}?",
    "Rank the {t.many} by {c.label}, starting with the {high}. What is the {n.label} of the {rank} one?",
)
def nth_best(s: SQLScene) -> SQLDraft:
    """Find the row in second or third place."""
    t = s.table(NUMBERS)
    c, n, high = s.number(t, full=True), t.identity, s.choice(HIGH_LOW)
    place, rank = s.choice(((2, "second"), (3, "third"), (4, "fourth")))
    return SQLDraft(
        f"SELECT {n} FROM {t} ORDER BY {c} {high.order} LIMIT 1 OFFSET {place - 1}",
        {"t": t, "n": n, "c": c, "high": high.of(c), "rank": rank},
        distinct=f"SELECT {c} FROM {t} ORDER BY {c} {high.order} LIMIT {place + 1}",
    )


@family(
    4,
    "For which {c.plural} is the average {v.label} of the {t.many} above {k}?",
    "List every {c.label} whose {t.many} have an average {v.label} above {k}.",
    "Group the {t.many} by {c.label}. Which {c.plural} have a mean {v.label} greater than {k}?",
)
def having_average(s: SQLScene) -> SQLDraft:
    """List the categories with a high average."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, v = s.category(t, full=True), s.number(t)
    k = s.threshold(v)
    return SQLDraft(
        f"SELECT {c} FROM {t} GROUP BY {c} HAVING AVG({v}) > {k}",
        {"t": t, "c": c, "v": v, "k": k},
        Shape.ANY,
        distinct=f"SELECT AVG({v}) FROM {t} GROUP BY {c} UNION ALL SELECT {k}",
    )


@family(
    4,
    "For each {c.label}, which {t.one} has the {high} {v.label}? Return the {c.label} and the {n.label}.",
    "Group the {t.many} by {c.label} and find the one with the {high} {v.label} in each group. I need "
    "the {c.label} and the {n.label}.",
    "For every {c.label}, list the {c.label} and the {n.label} of the {t.one} with the {high} {v.label}.",
)
def best_in_each(s: SQLScene) -> SQLDraft:
    """Find the best row of each category."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, v, n, high = s.category(t, full=True), s.number(t, full=True), t.identity, s.choice(HIGH_LOW)
    best = f"SELECT {high.function}(o.{v}) FROM {t} AS o WHERE o.{c} = {t}.{c}"
    return SQLDraft(
        f"SELECT {c}, {n} FROM {t} WHERE {v} = ({best})",
        {"t": t, "c": c, "v": v, "n": n, "high": high.of(v)},
        Shape.ROWS,
        distinct=f"SELECT {c} FROM {t} WHERE {v} = ({best})",
    )


@family(
    4,
    "For the {t.many} {f}, how many days pass on average from {c.label} to {d.label}?",
    "What is the average number of days from {c.label} to {d.label} of the {t.many} {f}?",
    "On average, how many days after the {c.label} is the {d.label}, looking only at the {t.many} {f}?",
)
def average_days(s: SQLScene) -> SQLDraft:
    """Average the days between two dates of a row."""
    t = s.table(Role.DATE)
    d = s.choice([d for d in t.of(Role.DATE) if "after" in d.spec])
    c = next(c for c in t.columns if c.name == d.spec["after"])
    f = s.condition(t, besides=(c, d))
    sql = f"SELECT AVG(DATE_DIFF('day', {c}, {d})) FROM {t} WHERE {f.sql()}"
    return SQLDraft(sql, {"t": t, "c": c, "d": d, "f": f})


@family(
    4,
    "Going by {c.label}, which calendar month has the highest total {v.label} of the {t.many}, all years "
    "taken together? Return the month as a number from 1 to 12.",
    "Add up the {v.plural} of the {t.many} by the month of their {c.label}, whatever the year. Which "
    "month (1 to 12) comes out highest?",
    "In which month of the year (1 to 12, over all years) is the total {v.label} of the {t.many} "
    "highest? Use the {c.label}.",
)
def top_month(s: SQLScene) -> SQLDraft:
    """Find the month with the highest sum."""
    t = s.table(Role.DATE, ADDITIVE)
    c, v = s.column(t, Role.DATE, full=True), s.column(t, *ADDITIVE, full=True)
    rest = f"FROM {t} GROUP BY MONTH({c}) ORDER BY SUM({v}) DESC LIMIT"
    return SQLDraft(
        f"SELECT MONTH({c}) {rest} 1",
        {"t": t, "c": c, "v": v},
        distinct=f"SELECT SUM({v}) {rest} 2",
    )


@family(
    4,
    "By how much does the average {c.label} of the {t.many} whose {g.label} is {v} exceed that of the "
    "{t.many} whose {g.label} is {w}? If it is lower, give a negative number.",
    "What is the average {c.label} of the {t.many} whose {g.label} is {v} minus the average {c.label} of "
    "those whose {g.label} is {w}?",
    "Compare the {t.many} by {g.label}: take the average {c.label} for {v} and subtract the average {c.label} for {w}.",
)
def difference_of_averages(s: SQLScene) -> SQLDraft:
    """Subtract one category's average from another's."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, g = s.number(t), s.category(t)
    v, w = s.two_values(g)
    first, second = (f"(SELECT AVG({c}) FROM {t} WHERE {g} = {literal(value)})" for value in (v, w))
    if len(s.world.values(c)) < 8:
        raise NoFit
    return SQLDraft(f"SELECT {first} - {second}", {"t": t, "c": c, "g": g, "v": v, "w": w})
