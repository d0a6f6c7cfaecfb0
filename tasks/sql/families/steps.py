"""Level 5, several steps: the result of one query is needed to write the next. Gold does it in one statement."""

from __future__ import annotations

from agentgym.tasks.sql.conditions import literal
from agentgym.tasks.sql.domains import ADDITIVE, NUMBERS, Role
from agentgym.tasks.sql.questions import Shape, SQLDraft, family
from agentgym.tasks.sql.scene import HIGH_LOW, SQLScene


@family(
    5,
    "Find the most common {c.label} of the {t.many}, then list the {n.plural} of the {t.many} {t.who} have it.",
    "Which {t.many} have the {c.label} that is most common among the {t.many}? Return their {n.plural}.",
    "I need the {n.plural} of all {t.many} whose {c.label} is the one that occurs most often.",
)
def list_of_top_category(s: SQLScene) -> SQLDraft:
    """List the rows of the largest category."""
    t = s.table(Role.CATEGORY)
    c, n = s.category(t, full=True), t.identity
    first = f"SELECT {c} FROM {t} GROUP BY {c} ORDER BY COUNT(*) DESC LIMIT 1"
    return SQLDraft(
        f"SELECT {n} FROM {t} WHERE {c} = ({first})",
        {"t": t, "n": n, "c": c},
        Shape.PART,
        distinct=f"SELECT COUNT(*) FROM {t} GROUP BY {c} ORDER BY COUNT(*) DESC LIMIT 2",
        steps=(first, f"SELECT {n} FROM {t} WHERE {c} = {{answer}}"),
    )


@family(
    5,
    "What is the average {v.label} of the {t.many} with the most common {c.label}?",
    "Find the most common {c.label} among the {t.many}. What is the mean {v.label} of the {t.many} {t.who} have it?",
    "Looking only at the {t.many} whose {c.label} is the one that occurs most often, what is their average {v.label}?",
)
def average_of_top_category(s: SQLScene) -> SQLDraft:
    """Average a number over the largest category."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, v = s.category(t, full=True), s.number(t)
    first = f"SELECT {c} FROM {t} GROUP BY {c} ORDER BY COUNT(*) DESC LIMIT 1"
    return SQLDraft(
        f"SELECT AVG({v}) FROM {t} WHERE {c} = ({first})",
        {"t": t, "c": c, "v": v},
        distinct=f"SELECT COUNT(*) FROM {t} GROUP BY {c} ORDER BY COUNT(*) DESC LIMIT 2",
        steps=(first, f"SELECT AVG({v}) FROM {t} WHERE {c} = {{answer}}"),
    )


@family(
    5,
    "Find the {c.label} whose {t.many} have the highest average {v.label}. How many {t.many} have that {c.label}?",
    "How many {t.many} belong to the {c.label} with the highest average {v.label}?",
    "Group the {t.many} by {c.label} and find the group with the highest average {v.label}. How many "
    "{t.many} are in it?",
)
def count_of_best_category(s: SQLScene) -> SQLDraft:
    """Count the rows of the category with the highest average."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, v = s.category(t, full=True), s.number(t, full=True)
    first = f"SELECT {c} FROM {t} GROUP BY {c} ORDER BY AVG({v}) DESC LIMIT 1"
    return SQLDraft(
        f"SELECT COUNT(*) FROM {t} WHERE {c} = ({first})",
        {"t": t, "c": c, "v": v},
        distinct=f"SELECT AVG({v}) FROM {t} GROUP BY {c} ORDER BY AVG({v}) DESC LIMIT 2",
        steps=(first, f"SELECT COUNT(*) FROM {t} WHERE {c} = {{answer}}"),
    )


@family(
    5,
    "Find the {p.one} with the {high} {c.label}, then list the {n.plural} of all {t.many} {t.who} have "
    "{p.it} as their {l.label}.",
    "Which {t.many} have the {p.one} with the {high} {c.label} as their {l.label}? Return their {n.plural}.",
    "I need the {n.plural} of the {t.many} {l.via} the {l.label} with the {high} {c.label} of all {p.many}.",
)
def children_of_best_parent(s: SQLScene) -> SQLDraft:
    """List the rows that refer to the best row."""
    link = s.link()
    p, t, n, high = link.parent, link.child, link.child.identity, s.choice(HIGH_LOW)
    c = s.number(p, full=True)
    first = f"SELECT {p.key} FROM {p} ORDER BY {c} {high.order} LIMIT 1"
    return SQLDraft(
        f"SELECT {n} FROM {t} WHERE {link.column} = ({first})",
        {"t": t, "p": p, "l": link, "n": n, "c": c, "high": high.of(c)},
        Shape.PART,
        distinct=f"SELECT {c} FROM {p} ORDER BY {c} {high.order} LIMIT 2",
        steps=(first, f"SELECT {n} FROM {t} WHERE {link.column} = {{answer}}"),
    )


@family(
    5,
    "Find the {p.one} with the most {t.many}, then list the {n.plural} of {p.its} {t.many}.",
    "Which {t.many} belong to the {p.one} with the most {t.many}? Return their {n.plural}.",
    "I need the {n.plural} of all {t.many} of the {p.one} {p.who} has more of them than any other.",
)
def children_of_top_parent(s: SQLScene) -> SQLDraft:
    """List the rows that refer to the row with the most references."""
    link = s.link(only=True, full=True)
    p, t, n, k = link.parent, link.child, link.child.identity, link.column
    first = f"SELECT {k} FROM {t} GROUP BY {k} ORDER BY COUNT(*) DESC LIMIT 1"
    return SQLDraft(
        f"SELECT {n} FROM {t} WHERE {k} = ({first})",
        {"t": t, "p": p, "l": link, "n": n},
        Shape.PART,
        distinct=f"SELECT COUNT(*) FROM {t} GROUP BY {k} ORDER BY COUNT(*) DESC LIMIT 2",
        steps=(first, f"SELECT {n} FROM {t} WHERE {k} = {{answer}}"),
    )


@family(
    5,
    "Which other {t.many} have the same {c.label} as the {t.one} {v}? Return their {n.plural}.",
    "List the {n.plural} of all {t.many} {t.who} share their {c.label} with the {t.one} {v}, not counting {v}.",
    "Look up the {c.label} of the {t.one} {v}. Which other {t.many} have it too? I need their {n.plural}.",
)
def same_category(s: SQLScene) -> SQLDraft:
    """List the other rows in the category of a named row."""
    t = s.named_table(Role.CATEGORY)
    c, n = s.category(t, full=True), t.identity
    v = s.value(n)
    first = f"SELECT {c} FROM {t} WHERE {n} = {literal(v)}"
    other = f"AND {n} <> {literal(v)}"
    return SQLDraft(
        f"SELECT {n} FROM {t} WHERE {c} = ({first}) {other}",
        {"t": t, "n": n, "c": c, "v": v},
        Shape.PART,
        steps=(first, f"SELECT {n} FROM {t} WHERE {c} = {{answer}} {other}"),
    )


@family(
    5,
    "Find the {t.one} with the {high} {c.label}. What is the {d.label} of {t.its} {l.label}?",
    "What is the {d.label} of the {l.label} of the {t.one} with the {high} {c.label}?",
    "Which {t.one} has the {high} {c.label}? I need the {d.label} of {t.its} {l.label}, nothing else.",
)
def parent_of_best_child(s: SQLScene) -> SQLDraft:
    """Look up a value of the parent of the best row."""
    link = s.link(full=True)
    t, p, k, high = link.child, link.parent, link.column, s.choice(HIGH_LOW)
    c = s.number(t, full=True)
    d = s.column(p, *NUMBERS, Role.NAME, Role.CATEGORY, Role.DATE, Role.YEAR, full=True)
    rest = f"FROM {t} ORDER BY {c} {high.order} LIMIT"
    return SQLDraft(
        f"SELECT {d} FROM {p} WHERE {p.key} = (SELECT {k} {rest} 1)",
        {"t": t, "p": p, "l": link, "c": c, "d": d, "high": high.of(c)},
        distinct=f"SELECT {c} {rest} 2",
        steps=(f"SELECT {k} {rest} 1", f"SELECT {d} FROM {p} WHERE {p.key} = {{answer}}"),
    )


@family(
    5,
    "Going by {c.label}, find the calendar year with the most {t.many}. What is the total {v.label} of "
    "the {t.many} of that year?",
    "Group the {t.many} by the year of their {c.label} and take the year with the most of them. What do "
    "the {v.plural} of that year add up to?",
    "What is the total {v.label} of the {t.many} whose {c.label} falls in the busiest year, that is, the "
    "year with the most {t.many} by {c.label}?",
)
def total_of_top_year(s: SQLScene) -> SQLDraft:
    """Sum a number over the year with the most rows."""
    t = s.table(Role.DATE, ADDITIVE)
    c, v = s.column(t, Role.DATE, full=True), s.column(t, *ADDITIVE)
    rest = f"FROM {t} GROUP BY YEAR({c}) ORDER BY COUNT(*) DESC LIMIT"
    first = f"SELECT YEAR({c}) {rest} 1"
    return SQLDraft(
        f"SELECT SUM({v}) FROM {t} WHERE YEAR({c}) = ({first})",
        {"t": t, "c": c, "v": v},
        distinct=f"SELECT COUNT(*) {rest} 2",
        steps=(first, f"SELECT SUM({v}) FROM {t} WHERE YEAR({c}) = {{answer}}"),
    )


@family(
    5,
    "Among the {p.many} with at least {k} {t.many}, which one has the highest average {c.label} across "
    "{p.its} {t.many}? Return the {n.label}.",
    "Leave out the {p.many} with fewer than {k} {t.many}. Of the rest, whose {t.many} have the highest "
    "average {c.label}? Return the {n.label} of the {p.one}.",
    "What is the {n.label} of the {p.one} whose {t.many} have the highest average {c.label}, counting "
    "only {p.many} with {k} or more {t.many}?",
)
def best_parent_of_many(s: SQLScene) -> SQLDraft:
    """Find the parent with the highest average, among those with enough children."""
    link = s.link(only=True)
    p, t, n, k = link.parent, link.child, link.parent.identity, s.rng.randint(2, 4)
    c = s.number(t, full=True)
    columns = ", ".join(dict.fromkeys((f"{p}.{p.key}", f"{p}.{n}")))
    rest = f"FROM {link.join} GROUP BY {columns} HAVING COUNT(*) >= {k} ORDER BY AVG({t}.{c}) DESC LIMIT"
    return SQLDraft(
        f"SELECT {p}.{n} {rest} 1",
        {"p": p, "t": t, "l": link, "n": n, "c": c, "k": k},
        distinct=f"SELECT AVG({t}.{c}) {rest} 2",
    )
