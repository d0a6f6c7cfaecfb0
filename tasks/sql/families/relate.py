"""Level 4, several tables: rows that no, some or many others refer to, and joins over two steps."""

from __future__ import annotations

from agentgym.tasks.sql.conditions import literal
from agentgym.tasks.sql.domains import ADDITIVE, Link
from agentgym.tasks.sql.questions import Shape, SQLDraft, family
from agentgym.tasks.sql.scene import SQLScene


def _grouped(link: Link) -> str:
    """Group a join by parent, in a way that lets both engines select the parent's name."""
    parent = link.parent
    columns = dict.fromkeys((f"{parent}.{parent.key}", f"{parent}.{parent.identity}"))
    return f"FROM {link.join} GROUP BY {', '.join(columns)}"


@family(
    4,
    "Which {p.many} have no {t.many}? Return their {n.plural}.",
    "List the {n.plural} of the {p.many} without a single {t.one}.",
    "I need the {n.label} of every {p.one} {p.who} has no {t.many} at all.",
)
def without_children(s: SQLScene) -> SQLDraft:
    """List the rows that nothing refers to."""
    link = s.link(only=True)
    p, t = link.parent, link.child
    sql = f"SELECT {p.identity} FROM {p} WHERE NOT EXISTS (SELECT 1 FROM {t} WHERE {link.on})"
    return SQLDraft(sql, {"p": p, "t": t, "l": link, "n": p.identity}, Shape.PART)


@family(
    4,
    "How many {p.many} have at least one {t.one}?",
    "Count the {p.many} with one or more {t.many}.",
    "How many of the {p.many} have any {t.many} at all?",
)
def count_with_children(s: SQLScene) -> SQLDraft:
    """Count the rows that something refers to."""
    link = s.link(only=True)
    return SQLDraft(
        f"SELECT COUNT(DISTINCT {link.column}) FROM {link.child}", {"t": link.child, "p": link.parent, "l": link}
    )


@family(
    4,
    "Which {p.many} have at least one {t.one} {f.one}? List each {n.label} once.",
    "List the {n.plural} of the {p.many} with one or more {t.many} {f}, each one once.",
    "I need the {n.label} of every {p.one} {p.who} has at least one {t.one} {f.one}, without duplicates.",
)
def with_child_where(s: SQLScene) -> SQLDraft:
    """List the rows that some row of a kind refers to."""
    link = s.link(only=True)
    p, t, f = link.parent, link.child, s.condition(link.child)
    sql = f"SELECT {p.identity} FROM {p} WHERE EXISTS (SELECT 1 FROM {t} WHERE {link.on} AND {f.sql(t.name)})"
    return SQLDraft(sql, {"p": p, "t": t, "l": link, "n": p.identity, "f": f}, Shape.PART)


@family(
    4,
    "How many {t.many} does each {p.one} have? Return the {n.label} and the count, including those with 0.",
    "List all {p.many} with two columns: their {n.label} and their number of {t.many} (0 if none).",
    "For every {p.one}, I need the {n.label} and how many {t.many} belong to {p.it}. Include {p.many} "
    "that have none, with a 0.",
)
def count_children(s: SQLScene) -> SQLDraft:
    """Count the rows that refer to each row, zeros included."""
    link = s.link(only=True, named=True)
    p, t, n = link.parent, link.child, link.parent.identity
    sql = f"SELECT {p}.{n}, COUNT({t}.{t.key}) FROM {p} LEFT JOIN {t} ON {link.on} GROUP BY {p}.{p.key}, {p}.{n}"
    return SQLDraft(sql, {"p": p, "t": t, "l": link, "n": n, "k": t.key}, Shape.ROWS)


@family(
    4,
    "Which {p.one} has the most {t.many}? Return the {n.label}.",
    "What is the {n.label} of the {p.one} with the largest number of {t.many}?",
    "Find the {p.one} {p.who} has more {t.many} than any other, and return {p.its} {n.label}.",
)
def top_parent(s: SQLScene) -> SQLDraft:
    """Find the row that the most others refer to."""
    link = s.link(only=True)
    p, n = link.parent, link.parent.identity
    rest = f"{_grouped(link)} ORDER BY COUNT(*) DESC LIMIT"
    words = {"p": p, "t": link.child, "l": link, "n": n}
    return SQLDraft(f"SELECT {p}.{n} {rest} 1", words, distinct=f"SELECT COUNT(*) {rest} 2")


@family(
    4,
    "Which {p.one} has the highest total {c.label} across {p.its} {t.many}? Return the {n.label}.",
    "Add up the {c.plural} of the {t.many} of each {p.one}. What is the {n.label} of the {p.one} with the highest sum?",
    "What is the {n.label} of the {p.one} whose {t.many} have the highest total {c.label}?",
)
def top_parent_total(s: SQLScene) -> SQLDraft:
    """Find the row with the highest sum over the rows that refer to it."""
    link = s.link(only=True)
    p, t, n = link.parent, link.child, link.parent.identity
    c = s.column(t, *ADDITIVE, full=True)
    rest = f"{_grouped(link)} ORDER BY SUM({t}.{c}) DESC LIMIT"
    words = {"p": p, "t": t, "l": link, "n": n, "c": c}
    return SQLDraft(f"SELECT {p}.{n} {rest} 1", words, distinct=f"SELECT SUM({t}.{c}) {rest} 2")


@family(
    4,
    "Which {p.many} have at least {k} {t.many}? Return their {n.plural}.",
    "List the {n.plural} of the {p.many} with {k} or more {t.many}.",
    "I need the {n.label} of every {p.one} {p.who} has {k} {t.many} or more.",
)
def with_many_children(s: SQLScene) -> SQLDraft:
    """List the rows that enough others refer to."""
    link = s.link(only=True)
    p, n, k = link.parent, link.parent.identity, s.rng.randint(2, 8)
    sql = f"SELECT {p}.{n} {_grouped(link)} HAVING COUNT(*) >= {k}"
    return SQLDraft(sql, {"p": p, "t": link.child, "l": link, "n": n, "k": k}, Shape.PART)


@family(
    4,
    "How many {t.many} are there {l.via} {l.a} whose {m.label} is {v}?",
    "Count the {t.many} {l.via} {l.a} whose {m.label} is {v}.",
    "How many {t.many} do we have {l.via} {l.a} {m.via} the {m.label} {v}?",
)
def count_of_grandparent(s: SQLScene) -> SQLDraft:
    """Count the rows that lead, over two foreign keys, to one named row."""
    link, upper = s.two_links()
    t, n = link.child, upper.parent.identity
    v = s.value(n)
    sql = f"SELECT COUNT(*) FROM {link.join} JOIN {upper.parent} ON {upper.on} WHERE {upper.parent}.{n} = {literal(v)}"
    return SQLDraft(sql, {"t": t, "l": link, "m": upper, "n": n, "v": v})


@family(
    4,
    "What is the total {c.label} of the {t.many} {l.via} {l.a} {m.via} {m.a} {f.one}?",
    "Take all {t.many} {l.via} {l.a} {m.via} {m.a} {f.one}. What do their {c.plural} add up to?",
    "Add up the {c.plural} of the {t.many} {l.via} {l.a} {m.via} {m.a} {f.brief_one}.",
)
def total_by_grandparent(s: SQLScene) -> SQLDraft:
    """Sum a number over the rows that lead, over two foreign keys, to rows of a kind."""
    link, upper = s.two_links()
    t = link.child
    c, f = s.column(t, *ADDITIVE), s.condition(upper.parent)
    sql = f"SELECT SUM({t}.{c}) FROM {link.join} JOIN {upper.parent} ON {upper.on} WHERE {f.sql(upper.parent.name)}"
    return SQLDraft(sql, {"t": t, "c": c, "l": link, "m": upper, "f": f})
