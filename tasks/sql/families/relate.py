"""Level 4, several tables: rows that no, some or many others refer to, and joins over two steps."""

from __future__ import annotations

from agentgym.tasks.sql.conditions import literal
from agentgym.tasks.sql.domains import ADDITIVE, Link
from agentgym.tasks.sql.questions import Draft, Shape, family
from agentgym.tasks.sql.scene import Scene


def _grouped(link: Link) -> str:
    """Group a join by parent, in a way that lets both engines select the parent's name."""
    parent = link.parent
    columns = dict.fromkeys((f"{parent}.{parent.key}", f"{parent}.{parent.identity}"))
    return f"FROM {link.join} GROUP BY {', '.join(columns)}"


@family(
    4,
    "Which {p.many} have no {t.many}? Give the {n.label}.",
    "List the {n.plural} of the {p.many} without any {t.many}.",
    "Show the {n.label} of every {p.one} that has no {t.one}.",
)
def without_children(s: Scene) -> Draft:
    """List the rows that nothing refers to."""
    link = s.link(only=True)
    p, t = link.parent, link.child
    sql = f"SELECT {p.identity} FROM {p} WHERE NOT EXISTS (SELECT 1 FROM {t} WHERE {link.on})"
    return Draft(sql, {"p": p, "t": t, "l": link, "n": p.identity}, Shape.PART)


@family(
    4,
    "How many {p.many} have at least one {t.one}?",
    "Count the {p.many} that have any {t.many}.",
    "What is the number of {p.many} with one or more {t.many}?",
)
def count_with_children(s: Scene) -> Draft:
    """Count the rows that something refers to."""
    link = s.link(only=True)
    return Draft(
        f"SELECT COUNT(DISTINCT {link.column}) FROM {link.child}", {"t": link.child, "p": link.parent, "l": link}
    )


@family(
    4,
    "Which {p.many} have at least one {t.one} {f.one}? Give every {n.label} once.",
    "List the {n.plural} of the {p.many} that have some {t.one} {f.one}, each once.",
    "Show, once each, the {n.plural} of the {p.many} with one or more {t.many} {f}.",
)
def with_child_where(s: Scene) -> Draft:
    """List the rows that some row of a kind refers to."""
    link = s.link(only=True)
    p, t, f = link.parent, link.child, s.condition(link.child)
    sql = f"SELECT {p.identity} FROM {p} WHERE EXISTS (SELECT 1 FROM {t} WHERE {link.on} AND {f.sql(t.name)})"
    return Draft(sql, {"p": p, "t": t, "l": link, "n": p.identity, "f": f}, Shape.PART)


@family(
    4,
    "For every {p.one}, show the {n.label} and the number of its {t.many}, zero included.",
    "How many {t.many} does each {p.one} have? Give the {n.label} and the count, also where it is 0.",
    "List all {p.many} with two columns: the {n.label} and how many {t.many} it has (0 if none).",
)
def count_children(s: Scene) -> Draft:
    """Count the rows that refer to each row, zeros included."""
    link = s.link(only=True, named=True)
    p, t, n = link.parent, link.child, link.parent.identity
    sql = f"SELECT {p}.{n}, COUNT({t}.{t.key}) FROM {p} LEFT JOIN {t} ON {link.on} GROUP BY {p}.{p.key}, {p}.{n}"
    return Draft(sql, {"p": p, "t": t, "l": link, "n": n, "k": t.key}, Shape.ROWS)


@family(
    4,
    "Which {p.one} has the most {t.many}? Give the {n.label}.",
    "What is the {n.label} of the {p.one} with the largest number of {t.many}?",
    "Find the {p.one} that has more {t.many} than any other and give the {n.label}.",
)
def top_parent(s: Scene) -> Draft:
    """Find the row that the most others refer to."""
    link = s.link(only=True)
    p, n = link.parent, link.parent.identity
    rest = f"{_grouped(link)} ORDER BY COUNT(*) DESC LIMIT"
    words = {"p": p, "t": link.child, "l": link, "n": n}
    return Draft(f"SELECT {p}.{n} {rest} 1", words, distinct=f"SELECT COUNT(*) {rest} 2")


@family(
    4,
    "Which {p.one} has the highest total {c.label} of its {t.many}? Give the {n.label}.",
    "What is the {n.label} of the {p.one} whose {t.many} have the highest total {c.label}?",
    "Add up the {c.label} of the {t.many} of each {p.one}. Which {p.one} comes first? Give the {n.label}.",
)
def top_parent_total(s: Scene) -> Draft:
    """Find the row with the highest sum over the rows that refer to it."""
    link = s.link(only=True)
    p, t, n = link.parent, link.child, link.parent.identity
    c = s.column(t, *ADDITIVE, full=True)
    rest = f"{_grouped(link)} ORDER BY SUM({t}.{c}) DESC LIMIT"
    words = {"p": p, "t": t, "l": link, "n": n, "c": c}
    return Draft(f"SELECT {p}.{n} {rest} 1", words, distinct=f"SELECT SUM({t}.{c}) {rest} 2")


@family(
    4,
    "Which {p.many} have at least {k} {t.many}? Give the {n.label}.",
    "List the {n.plural} of the {p.many} with {k} or more {t.many}.",
    "Show the {n.label} of every {p.one} that has at least {k} {t.many}.",
)
def with_many_children(s: Scene) -> Draft:
    """List the rows that enough others refer to."""
    link = s.link(only=True)
    p, n, k = link.parent, link.parent.identity, s.rng.randint(2, 8)
    sql = f"SELECT {p}.{n} {_grouped(link)} HAVING COUNT(*) >= {k}"
    return Draft(sql, {"p": p, "t": link.child, "l": link, "n": n, "k": k}, Shape.PART)


@family(
    4,
    "How many {t.many} have {l.a} whose {m.label} is {v}?",
    "Count the {t.many} with {l.a} whose {m.label} is {v}.",
    "What is the number of {t.many} that have {l.a} with the {m.label} {v}?",
)
def count_of_grandparent(s: Scene) -> Draft:
    """Count the rows that lead, over two foreign keys, to one named row."""
    link, upper = s.two_links()
    t, n = link.child, upper.parent.identity
    v = s.value(n)
    sql = f"SELECT COUNT(*) FROM {link.join} JOIN {upper.parent} ON {upper.on} WHERE {upper.parent}.{n} = {literal(v)}"
    return Draft(sql, {"t": t, "l": link, "m": upper, "n": n, "v": v})


@family(
    4,
    "What is the total {c.label} of the {t.many} that have {l.a} with {m.a} {f.one}?",
    "Give the total {c.label} of all {t.many} with {l.a} that has {m.a} {f.one}.",
    "Add up the {c.label} of the {t.many} that have {l.a} with {m.a} {f.one}.",
)
def total_by_grandparent(s: Scene) -> Draft:
    """Sum a number over the rows that lead, over two foreign keys, to rows of a kind."""
    link, upper = s.two_links()
    t = link.child
    c, f = s.column(t, *ADDITIVE), s.condition(upper.parent)
    sql = f"SELECT SUM({t}.{c}) FROM {link.join} JOIN {upper.parent} ON {upper.on} WHERE {f.sql(upper.parent.name)}"
    return Draft(sql, {"t": t, "c": c, "l": link, "m": upper, "f": f})
