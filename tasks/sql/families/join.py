"""Level 3, two tables: rows reached through a foreign key."""

from __future__ import annotations

from agentgym.tasks.sql.conditions import literal
from agentgym.tasks.sql.domains import ADDITIVE, NUMBERS, Role
from agentgym.tasks.sql.questions import Draft, Shape, family
from agentgym.tasks.sql.scene import HIGH_LOW, Scene


@family(
    3,
    "List the {n.plural} of the {t.many} whose {l.label} is {v}.",
    "Which {t.many} have {v} as {l.label}? Give the {n.label}.",
    "Show the {n.label} of every {t.one} with the {l.label} {v}.",
)
def list_of_parent(s: Scene) -> Draft:
    """List the rows that refer to one named row."""
    link = s.link(named=True)
    t, n, p = link.child, link.child.identity, link.parent.identity
    v = s.value(p)
    sql = f"SELECT {t}.{n} FROM {link.join} WHERE {link.parent}.{p} = {literal(v)}"
    return Draft(sql, {"t": t, "n": n, "l": link, "p": p, "v": v}, Shape.PART)


@family(
    3,
    "How many {t.many} have {l.a} {f.one}?",
    "Count the {t.many} with {l.a} {f.one}.",
    "What is the number of {t.many} that have {l.a} {f.one}?",
)
def count_by_parent(s: Scene) -> Draft:
    """Count the rows whose parent meets a condition."""
    link = s.link()
    f = s.condition(link.parent)
    sql = f"SELECT COUNT(*) FROM {link.join} WHERE {f.sql(link.parent.name)}"
    return Draft(sql, {"t": link.child, "l": link, "f": f})


@family(
    3,
    "List the {n.plural} of the {t.many} {g} and that have {l.a} {f.one}.",
    "Which {t.many} {g} have {l.a} {f.one}? Give the {n.label}.",
    "Show the {n.label} of every {t.one} {g.one} and that has {l.a} {f.one}.",
)
def list_by_parent(s: Scene) -> Draft:
    """List the rows that meet a condition and whose parent meets another one."""
    link = s.link()
    t, n = link.child, link.child.identity
    f, g = s.condition(link.parent), s.condition(t)
    sql = f"SELECT {t}.{n} FROM {link.join} WHERE {f.sql(link.parent.name)} AND {g.sql(t.name)}"
    return Draft(sql, {"t": t, "n": n, "g": g, "l": link, "f": f}, Shape.PART)


@family(
    3,
    "For every {t.one} {f.one}, show the {n.label} of the {t.one} and the {p.label} of the {l.label}.",
    "List the {t.many} {f} with two columns: the {t.one}'s {n.label} and the {l.label}'s {p.label}.",
    "Show the {n.label} of each {t.one} {f.one} next to the {p.label} of the {l.label}.",
)
def list_with_parent(s: Scene) -> Draft:
    """List some rows next to the names of their parents."""
    link = s.link(named=True, full=True)
    t, n, p = link.child, link.child.identity, link.parent.identity
    f = s.condition(t)
    sql = f"SELECT {t}.{n}, {link.parent}.{p} FROM {link.join} WHERE {f.sql(t.name)}"
    return Draft(sql, {"t": t, "n": n, "l": link, "p": p, "f": f}, Shape.PART)


@family(
    3,
    "What is the average {c.label} of the {t.many} that have {l.a} {f.one}?",
    "Give the average {c.label} of all {t.many} with {l.a} {f.one}.",
    "Among the {t.many} with {l.a} {f.one}, what is the mean {c.label}?",
)
def average_by_parent(s: Scene) -> Draft:
    """Average a number over the rows whose parent meets a condition."""
    link = s.link()
    t, f = link.child, s.condition(link.parent)
    c = s.number(t)
    sql = f"SELECT AVG({t}.{c}) FROM {link.join} WHERE {f.sql(link.parent.name)}"
    return Draft(sql, {"t": t, "c": c, "l": link, "f": f})


@family(
    3,
    "What is the total {c.label} of the {t.many} whose {l.label} is {v}?",
    "Give the total {c.label} of all {t.many} with the {l.label} {v}.",
    "Among the {t.many} with the {l.label} {v}, what is the sum of the {c.plural}?",
)
def total_of_parent(s: Scene) -> Draft:
    """Sum a number over the rows of one parent."""
    link = s.link(named=True)
    t, p = link.child, link.parent.identity
    c, v = s.column(t, *ADDITIVE), s.value(p)
    sql = f"SELECT SUM({t}.{c}) FROM {link.join} WHERE {link.parent}.{p} = {literal(v)}"
    return Draft(sql, {"t": t, "c": c, "l": link, "p": p, "v": v})


@family(
    3,
    "What is the {c.label} of the {l.label} of the {t.one} {v}?",
    "Give the {c.label} of the {l.label} that the {t.one} {v} has.",
    "Which {c.label} does the {l.label} of the {t.one} {v} have?",
)
def lookup_parent(s: Scene) -> Draft:
    """Look up a value of the parent of one row."""
    link = s.link()
    t, n = link.child, link.child.identity
    c = s.column(link.parent, *NUMBERS, Role.NAME, Role.CATEGORY, Role.DATE, Role.YEAR)
    v = s.value(n)
    sql = f"SELECT {link.parent}.{c} FROM {link.join} WHERE {t}.{n} = {literal(v)}"
    said = f"with {n.label} {v}" if n.role is Role.KEY else v
    return Draft(sql, {"t": t, "n": n, "l": link, "c": c, "v": said})


@family(
    3,
    "For each {c.label} of the {p.many}, count the {t.many} of those {p.many}. Leave out {c.plural} without any. "
    "Show the {c.label} and the count.",
    "How many {t.many} are there per {c.label} of their {l.label}? Give the {c.label} and the number, without zeros.",
    "Count the {t.many} by the {c.label} of the {l.label}, leaving out zeros. Show the {c.label} and the count.",
)
def count_per_parent_category(s: Scene) -> Draft:
    """Count the rows for each category of their parents."""
    link = s.link(only=True)
    t, c = link.child, s.category(link.parent, full=True)
    sql = f"SELECT {link.parent}.{c}, COUNT(*) FROM {link.join} GROUP BY {link.parent}.{c}"
    return Draft(sql, {"t": t, "l": link, "p": link.parent, "c": c}, Shape.ROWS)


@family(
    3,
    "Which {t.one} with {l.a} {f.one} has the {high} {c.label}? Give the {n.label}.",
    "Among the {t.many} with {l.a} {f.one}, which one has the {high} {c.label}? Give the {n.label}.",
    "What is the {n.label} of the {t.one} with the {high} {c.label}, among those that have {l.a} {f.one}?",
)
def top_by_parent(s: Scene) -> Draft:
    """Find the best row among those whose parent meets a condition."""
    link = s.link()
    t, n, f, high = link.child, link.child.identity, s.condition(link.parent), s.choice(HIGH_LOW)
    c = s.number(t, full=True)
    rest = f"FROM {link.join} WHERE {f.sql(link.parent.name)} ORDER BY {t}.{c} {high.order} LIMIT"
    return Draft(
        f"SELECT {t}.{n} {rest} 1",
        {"t": t, "n": n, "c": c, "l": link, "f": f, "high": high},
        distinct=f"SELECT {t}.{c} {rest} 2",
    )
