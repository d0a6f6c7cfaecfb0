"""Level 4, one table: subqueries, set operations, shares, runners-up, groups chosen by their content."""

from __future__ import annotations

from agentgym.procedural import NoFit
from agentgym.tasks.sql.conditions import literal
from agentgym.tasks.sql.domains import ADDITIVE, NUMBERS, Role
from agentgym.tasks.sql.questions import Draft, Shape, family
from agentgym.tasks.sql.scene import HIGH_LOW, Scene


@family(
    4,
    "List the {n.plural} of the {t.many} whose {c.label} is {above} the average {c.label} of all {t.many}.",
    "Which {t.many} have {c.a} {above} the overall average? Give the {n.label}.",
    "Show the {n.label} of every {t.one} with a {c.label} {above} the mean {c.label} of all {t.many}.",
)
def beyond_average(s: Scene) -> Draft:
    """List the rows above or below the average."""
    t = s.table(NUMBERS)
    c, n = s.number(t), t.identity
    above, sign = s.choice((("above", ">"), ("below", "<")))
    sql = f"SELECT {n} FROM {t} WHERE {c} {sign} (SELECT AVG({c}) FROM {t})"
    return Draft(sql, {"t": t, "n": n, "c": c, "above": above}, Shape.PART)


@family(
    4,
    "How many {t.many} have {c.a} {above} the average {c.label} of the {t.many} {f}?",
    "Count the {t.many} whose {c.label} is {above} the average {c.label} of those {t.many} {f}.",
    "Compare all {t.many} with the average {c.label} of the {t.many} {f}: how many have {c.a} {above} it?",
)
def count_beyond_average_of(s: Scene) -> Draft:
    """Count the rows above or below the average of some rows."""
    t = s.table(NUMBERS)
    c = s.number(t)
    f = s.condition(t, besides=(c,))
    above, sign = s.choice((("above", ">"), ("below", "<")))
    sql = f"SELECT COUNT(*) FROM {t} WHERE {c} {sign} (SELECT AVG({c}) FROM {t} WHERE {f.sql()})"
    return Draft(sql, {"t": t, "c": c, "f": f, "above": above})


@family(
    4,
    "How many {t.many} have {c.a} {above} that of the {t.one} {v}?",
    "Count the {t.many} whose {c.label} is {above} the {c.label} of the {t.one} {v}.",
    "What is the number of {t.many} with {c.a} {above} the one of the {t.one} {v}?",
)
def count_beyond_row(s: Scene) -> Draft:
    """Count the rows above or below a named row."""
    t = s.named_table(NUMBERS)
    c, n = s.number(t), t.identity
    v = s.value(n)
    above, sign = s.choice((("above", ">"), ("below", "<")))
    sql = f"SELECT COUNT(*) FROM {t} WHERE {c} {sign} (SELECT {c} FROM {t} WHERE {n} = {literal(v)})"
    return Draft(sql, {"t": t, "c": c, "n": n, "v": v, "above": above})


@family(
    4,
    "Which {c.plural} have both a {t.one} {f.one} and a {t.one} {g.one}? List every such {c.label} once.",
    "List the different {c.plural} that occur both among the {t.many} {f} and among the {t.many} {g}.",
    "Show, once each, the {c.plural} found for some {t.one} {f.one} as well as for some {t.one} {g.one}.",
)
def intersect(s: Scene) -> Draft:
    """List the categories that two sets of rows share."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    f, g = s.two_conditions(t, besides=(c,))
    sql = f"SELECT {c} FROM {t} WHERE {f.sql()} INTERSECT SELECT {c} FROM {t} WHERE {g.sql()}"
    return Draft(sql, {"t": t, "c": c, "f": f, "g": g}, Shape.ANY)


@family(
    4,
    "Which {c.plural} occur among the {t.many} {f} but not among the {t.many} {g}? List every such {c.label} once.",
    "List the different {c.plural} of the {t.many} {f}, without those {c.plural} that any {t.one} {g.one} has.",
    "Show, once each, the {c.plural} found for some {t.one} {f.one} but for no {t.one} {g.one}.",
)
def set_difference(s: Scene) -> Draft:
    """List the categories of some rows that other rows do not have."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    f = s.condition(t, besides=(c,))
    g = s.condition(t, besides=(c, f.column))
    sql = f"SELECT {c} FROM {t} WHERE {f.sql()} EXCEPT SELECT {c} FROM {t} WHERE {g.sql()}"
    return Draft(sql, {"t": t, "c": c, "f": f, "g": g}, Shape.ANY)


@family(
    4,
    "List every {c.label} that occurs among the {t.many} {f} or among the {u.many} {g}, each once.",
    "Which different {c.plural} do the {t.many} {f} and the {u.many} {g} have, taken together?",
    "Put the {c.plural} of the {t.many} {f} and of the {u.many} {g} into one list without repetitions.",
)
def union_of_tables(s: Scene) -> Draft:
    """List the distinct categories of the rows of two tables."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    later = s.world.domain.tables[s.world.domain.tables.index(t) + 1 :]
    d = s.choice([d for u in later for d in u.of(Role.CATEGORY) if d.label == c.label and not d.nullable])
    u = next(u for u in later if u.name == d.table)
    f, g = s.condition(t, besides=(c,)), s.condition(u, besides=(d,))
    sql = f"SELECT {c} FROM {t} WHERE {f.sql()} UNION SELECT {d} FROM {u} WHERE {g.sql()}"
    return Draft(sql, {"t": t, "c": c, "f": f, "u": u, "d": d, "g": g}, Shape.ROWS)


@family(
    4,
    "What percentage of all {t.many} are {t.many} {f}? Give a number from 0 to 100.",
    "Of all {t.many}, which percentage (0 to 100) are {t.many} {f}?",
    "Give the share of {t.many} {f} among all {t.many}, in percent (0 to 100).",
)
def share_of_rows(s: Scene) -> Draft:
    """Find the percentage of rows that meet a condition."""
    t = s.table()
    f = s.condition(t)
    return Draft(f"SELECT 100.0 * SUM(CASE WHEN {f.sql()} THEN 1 ELSE 0 END) / COUNT(*) FROM {t}", {"t": t, "f": f})


@family(
    4,
    "What percentage of the total {c.label} of all {t.many} comes from {t.many} {f}? Give a number from 0 to 100.",
    "Of the total {c.label} of all {t.many}, which percentage (0 to 100) belongs to {t.many} {f}?",
    "Give the share of the {t.many} {f} in the total {c.label} of all {t.many}, in percent (0 to 100).",
)
def share_of_total(s: Scene) -> Draft:
    """Find the percentage of a sum that some rows make up."""
    t = s.table(ADDITIVE)
    c = s.column(t, *ADDITIVE)
    f = s.condition(t, besides=(c,))
    sql = f"SELECT 100.0 * SUM(CASE WHEN {f.sql()} THEN {c} ELSE 0 END) / SUM({c}) FROM {t}"
    return Draft(sql, {"t": t, "c": c, "f": f})


@family(
    4,
    "Which {t.one} has the {rank} {high} {c.label}? Give the {n.label}.",
    "What is the {n.label} of the {t.one} with the {rank} {high} {c.label}?",
    "Find the {t.one} with the {rank} {high} {c.label} and give the {n.label}.",
)
def nth_best(s: Scene) -> Draft:
    """Find the row in second or third place."""
    t = s.table(NUMBERS)
    c, n, high = s.number(t, full=True), t.identity, s.choice(HIGH_LOW)
    place, rank = s.choice(((2, "second"), (3, "third"), (4, "fourth")))
    return Draft(
        f"SELECT {n} FROM {t} ORDER BY {c} {high.order} LIMIT 1 OFFSET {place - 1}",
        {"t": t, "n": n, "c": c, "high": high, "rank": rank},
        distinct=f"SELECT {c} FROM {t} ORDER BY {c} {high.order} LIMIT {place + 1}",
    )


@family(
    4,
    "Which {c.plural} have {t.many} with an average {v.label} above {k}?",
    "List every {c.label} for which the average {v.label} of its {t.many} is above {k}.",
    "Show the {c.plural} of the {t.many} where the mean {v.label} is greater than {k}.",
)
def having_average(s: Scene) -> Draft:
    """List the categories with a high average."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, v = s.category(t, full=True), s.number(t)
    k = s.threshold(v)
    return Draft(
        f"SELECT {c} FROM {t} GROUP BY {c} HAVING AVG({v}) > {k}",
        {"t": t, "c": c, "v": v, "k": k},
        Shape.ANY,
        distinct=f"SELECT AVG({v}) FROM {t} GROUP BY {c} UNION ALL SELECT {k}",
    )


@family(
    4,
    "For each {c.label}, which {t.one} has the {high} {v.label}? Show the {c.label} and the {n.label}.",
    "Show every {c.label} of the {t.many} with the {n.label} of its {t.one} that has the {high} {v.label}.",
    "Per {c.label}, find the {t.one} with the {high} {v.label}. Give the {c.label} and the {n.label}.",
)
def best_in_each(s: Scene) -> Draft:
    """Find the best row of each category."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, v, n, high = s.category(t, full=True), s.number(t, full=True), t.identity, s.choice(HIGH_LOW)
    best = f"SELECT {high.function}(o.{v}) FROM {t} AS o WHERE o.{c} = {t}.{c}"
    return Draft(
        f"SELECT {c}, {n} FROM {t} WHERE {v} = ({best})",
        {"t": t, "c": c, "v": v, "n": n, "high": high},
        Shape.ROWS,
        distinct=f"SELECT {c} FROM {t} WHERE {v} = ({best})",
    )


@family(
    4,
    "What is the average number of days from {c.label} to {d.label} of the {t.many} {f}?",
    "For the {t.many} {f}, how many days after the {c.label} is the {d.label} on average?",
    "Give the average time from {c.label} to {d.label} in days, for the {t.many} {f} that have both dates.",
)
def average_days(s: Scene) -> Draft:
    """Average the days between two dates of a row."""
    t = s.table(Role.DATE)
    d = s.choice([d for d in t.of(Role.DATE) if "after" in d.spec])
    c = next(c for c in t.columns if c.name == d.spec["after"])
    f = s.condition(t, besides=(c, d))
    sql = f"SELECT AVG(DATE_DIFF('day', {c}, {d})) FROM {t} WHERE {f.sql()}"
    return Draft(sql, {"t": t, "c": c, "d": d, "f": f})


@family(
    4,
    "In which calendar month (1 to 12, all years together) is the total {v.label} of the {t.many} the highest, "
    "by {c.label}?",
    "By {c.label}, which month number (1 to 12, over all years) has the highest total {v.label} of the {t.many}?",
    "Add up the {v.label} of the {t.many} per calendar month of the {c.label}, over all years. "
    "Which month number (1 to 12) is highest?",
)
def top_month(s: Scene) -> Draft:
    """Find the month with the highest sum."""
    t = s.table(Role.DATE, ADDITIVE)
    c, v = s.column(t, Role.DATE, full=True), s.column(t, *ADDITIVE, full=True)
    rest = f"FROM {t} GROUP BY MONTH({c}) ORDER BY SUM({v}) DESC LIMIT"
    return Draft(
        f"SELECT MONTH({c}) {rest} 1",
        {"t": t, "c": c, "v": v},
        distinct=f"SELECT SUM({v}) {rest} 2",
    )


@family(
    4,
    "By how much does the average {c.label} of the {t.many} with {g.label} {v} exceed that of the {t.many} with "
    "{g.label} {w}? (A negative number if it is lower.)",
    "What is the average {c.label} of the {t.many} whose {g.label} is {v} minus that of the {t.many} whose "
    "{g.label} is {w}?",
    "Subtract the average {c.label} of the {t.many} with {g.label} {w} from that of the {t.many} with {g.label} {v}.",
)
def difference_of_averages(s: Scene) -> Draft:
    """Subtract one category's average from another's."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, g = s.number(t), s.category(t)
    v, w = s.two_values(g)
    first, second = (f"(SELECT AVG({c}) FROM {t} WHERE {g} = {literal(value)})" for value in (v, w))
    if len(s.world.values(c)) < 8:
        raise NoFit
    return Draft(f"SELECT {first} - {second}", {"t": t, "c": c, "g": g, "v": v, "w": w})
