"""Level 3, two tables: rows reached through a foreign key."""

from __future__ import annotations

from agentgym.tasks.sql.conditions import literal
from agentgym.tasks.sql.domains import ADDITIVE, NUMBERS, Role
from agentgym.tasks.sql.questions import Shape, SQLDraft, family
from agentgym.tasks.sql.scene import HIGH_LOW, SQLScene


@family(
    3,
    "Which {t.many} have {v} as their {l.label}? Return their {n.plural}.",
    "List the {n.plural} of all {t.many} whose {l.label} is {v}.",
    "I'm looking for the {t.many} whose {l.label} is {v}. What are their {n.plural}?",
)
def list_of_parent(s: SQLScene) -> SQLDraft:
    """List the rows that refer to one named row."""
    link = s.link(named=True)
    t, n, p = link.child, link.child.identity, link.parent.identity
    v = s.value(p)
    sql = f"SELECT {t}.{n} FROM {link.join} WHERE {link.parent}.{p} = {literal(v)}"
    return SQLDraft(sql, {"t": t, "n": n, "l": link, "p": p, "v": v}, Shape.PART)


@family(
    3,
    "How many {t.many} are there {l.via} {l.a} {f.one}?",
    "Count the {t.many} {l.via} {l.a} {f.one}.",
    "How many {t.many} do we have {l.via} {l.a} {f.brief_one}?",
)
def count_by_parent(s: SQLScene) -> SQLDraft:
    """Count the rows whose parent meets a condition."""
    link = s.link()
    f = s.condition(link.parent)
    sql = f"SELECT COUNT(*) FROM {link.join} WHERE {f.sql(link.parent.name)}"
    return SQLDraft(sql, {"t": link.child, "l": link, "f": f})


@family(
    3,
    "Find the {t.many} {l.via} {l.a} {f.one}. Of these, list the {n.plural} of those {g}.",
    "Among the {t.many} {l.via} {l.a} {f.one}, list the {n.plural} of those {g}.",
    "Take the {t.many} {g} and keep only those {l.via} {l.a} {f.one}. I need their {n.plural}.",
)
def list_by_parent(s: SQLScene) -> SQLDraft:
    """List the rows that meet a condition and whose parent meets another one."""
    link = s.link()
    t, n = link.child, link.child.identity
    f, g = s.condition(link.parent), s.condition(t)
    sql = f"SELECT {t}.{n} FROM {link.join} WHERE {f.sql(link.parent.name)} AND {g.sql(t.name)}"
    return SQLDraft(sql, {"t": t, "n": n, "g": g, "l": link, "f": f}, Shape.PART)


@family(
    3,
    "For each {t.one} {f.one}, return {t.its} {n.label} and the {p.label} of {t.its} {l.label}.",
    "List the {t.many} {f} with their {l.label}: one column for the {n.label}, one for the {p.label} of the {l.label}.",
    "I need the {n.label} of every {t.one} {f.one}, together with the {p.label} of {t.its} {l.label}.",
)
def list_with_parent(s: SQLScene) -> SQLDraft:
    """List some rows next to the names of their parents."""
    link = s.link(named=True, full=True)
    t, n, p = link.child, link.child.identity, link.parent.identity
    f = s.condition(t)
    sql = f"SELECT {t}.{n}, {link.parent}.{p} FROM {link.join} WHERE {f.sql(t.name)}"
    return SQLDraft(sql, {"t": t, "n": n, "l": link, "p": p, "f": f}, Shape.PART)


@family(
    3,
    "What is the average {c.label} of the {t.many} {l.via} {l.a} {f.one}?",
    "Looking only at {t.many} {l.via} {l.a} {f.one}, what is their mean {c.label}?",
    "I'd like to know the average {c.label} of all {t.many} {l.via} {l.a} {f.brief_one}.",
)
def average_by_parent(s: SQLScene) -> SQLDraft:
    """Average a number over the rows whose parent meets a condition."""
    link = s.link()
    t, f = link.child, s.condition(link.parent)
    c = s.number(t)
    sql = f"SELECT AVG({t}.{c}) FROM {link.join} WHERE {f.sql(link.parent.name)}"
    return SQLDraft(sql, {"t": t, "c": c, "l": link, "f": f})


@family(
    3,
    "What is the total {c.label} of the {t.many} whose {l.label} is {v}?",
    "What do the {c.plural} of all {t.many} {l.via} the {l.label} {v} add up to?",
    "Looking only at the {t.many} whose {l.label} is {v}, what is the total {c.label}?",
)
def total_of_parent(s: SQLScene) -> SQLDraft:
    """Sum a number over the rows of one parent."""
    link = s.link(named=True)
    t, p = link.child, link.parent.identity
    c, v = s.column(t, *ADDITIVE), s.value(p)
    sql = f"SELECT SUM({t}.{c}) FROM {link.join} WHERE {link.parent}.{p} = {literal(v)}"
    return SQLDraft(sql, {"t": t, "c": c, "l": link, "p": p, "v": v})


@family(
    3,
    "What is the {c.label} of the {l.label} of the {t.one} {v}?",
    "Look up the {l.label} of the {t.one} {v}. What is {l.parent.its} {c.label}?",
    "For the {t.one} {v}, can you tell me the {c.label} of {t.its} {l.label}?",
)
def lookup_parent(s: SQLScene) -> SQLDraft:
    """Look up a value of the parent of one row."""
    link = s.link()
    t, n = link.child, link.child.identity
    c = s.column(link.parent, *NUMBERS, Role.NAME, Role.CATEGORY, Role.DATE, Role.YEAR)
    v = s.value(n)
    sql = f"SELECT {link.parent}.{c} FROM {link.join} WHERE {t}.{n} = {literal(v)}"
    phrase = f"with {n.label} {v}" if n.role is Role.KEY else v
    return SQLDraft(sql, {"t": t, "n": n, "l": link, "c": c, "v": phrase})


@family(
    3,
    "How many {t.many} are there for each {c.label} of their {l.label}? Return the {c.label} and the "
    "count, leaving out zeros.",
    "Group the {t.many} by the {c.label} of their {l.label} and list each {c.label} that occurs with its "
    "number of {t.many}.",
    "For each {c.label} of the {p.many}, how many {t.many} do those {p.many} have? I need the {c.label} "
    "and the count, without the {c.plural} that have none.",
)
def count_per_parent_category(s: SQLScene) -> SQLDraft:
    """Count the rows for each category of their parents."""
    link = s.link(only=True)
    t, c = link.child, s.category(link.parent, full=True)
    sql = f"SELECT {link.parent}.{c}, COUNT(*) FROM {link.join} GROUP BY {link.parent}.{c}"
    return SQLDraft(sql, {"t": t, "l": link, "p": link.parent, "c": c}, Shape.ROWS)


@family(
    3,
    "Among the {t.many} {l.via} {l.a} {f.one}, which one has the {high} {c.label}? Return the {n.label}.",
    "Which {t.one} has the {high} {c.label}, counting only {t.many} {l.via} {l.a} {f.one}? Return the {n.label}.",
    "Look at the {t.many} {l.via} {l.a} {f.brief_one}. What is the {n.label} of the one with the {high} {c.label}?",
)
def top_by_parent(s: SQLScene) -> SQLDraft:
    """Find the best row among those whose parent meets a condition."""
    link = s.link()
    t, n, f, high = link.child, link.child.identity, s.condition(link.parent), s.choice(HIGH_LOW)
    c = s.number(t, full=True)
    rest = f"FROM {link.join} WHERE {f.sql(link.parent.name)} ORDER BY {t}.{c} {high.order} LIMIT"
    return SQLDraft(
        f"SELECT {t}.{n} {rest} 1",
        {"t": t, "n": n, "c": c, "l": link, "f": f, "high": high.of(c)},
        distinct=f"SELECT {t}.{c} {rest} 2",
    )
