"""Level 5, several steps: the result of one query is needed to write the next. Gold does it in one statement."""

from __future__ import annotations

from agentgym.tasks.sql.conditions import literal
from agentgym.tasks.sql.domains import ADDITIVE, NUMBERS, Role
from agentgym.tasks.sql.questions import Draft, Shape, family
from agentgym.tasks.sql.scene import HIGH_LOW, Scene


@family(
    5,
    "Find the {c.label} with the most {t.many}. List the {n.plural} of the {t.many} with that {c.label}.",
    "List the {n.plural} of all {t.many} that have the most frequent {c.label} of the {t.many}.",
    "Which {t.many} have the {c.label} that most {t.many} share? Give the {n.label}.",
)
def list_of_top_category(s: Scene) -> Draft:
    """List the rows of the largest category."""
    t = s.table(Role.CATEGORY)
    c, n = s.category(t, full=True), t.identity
    first = f"SELECT {c} FROM {t} GROUP BY {c} ORDER BY COUNT(*) DESC LIMIT 1"
    return Draft(
        f"SELECT {n} FROM {t} WHERE {c} = ({first})",
        {"t": t, "n": n, "c": c},
        Shape.PART,
        distinct=f"SELECT COUNT(*) FROM {t} GROUP BY {c} ORDER BY COUNT(*) DESC LIMIT 2",
        steps=(first, f"SELECT {n} FROM {t} WHERE {c} = {{answer}}"),
    )


@family(
    5,
    "Find the {c.label} with the most {t.many}. What is the average {v.label} of the {t.many} with that {c.label}?",
    "What is the average {v.label} of the {t.many} that have the most frequent {c.label} of the {t.many}?",
    "Among the {t.many} with the {c.label} that most {t.many} share, what is the mean {v.label}?",
)
def average_of_top_category(s: Scene) -> Draft:
    """Average a number over the largest category."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, v = s.category(t, full=True), s.number(t)
    first = f"SELECT {c} FROM {t} GROUP BY {c} ORDER BY COUNT(*) DESC LIMIT 1"
    return Draft(
        f"SELECT AVG({v}) FROM {t} WHERE {c} = ({first})",
        {"t": t, "c": c, "v": v},
        distinct=f"SELECT COUNT(*) FROM {t} GROUP BY {c} ORDER BY COUNT(*) DESC LIMIT 2",
        steps=(first, f"SELECT AVG({v}) FROM {t} WHERE {c} = {{answer}}"),
    )


@family(
    5,
    "Find the {c.label} with the highest average {v.label} of its {t.many}. How many {t.many} have that {c.label}?",
    "How many {t.many} have the {c.label} whose {t.many} have the highest average {v.label}?",
    "Count the {t.many} with the {c.label} for which the average {v.label} of the {t.many} is highest.",
)
def count_of_best_category(s: Scene) -> Draft:
    """Count the rows of the category with the highest average."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, v = s.category(t, full=True), s.number(t, full=True)
    first = f"SELECT {c} FROM {t} GROUP BY {c} ORDER BY AVG({v}) DESC LIMIT 1"
    return Draft(
        f"SELECT COUNT(*) FROM {t} WHERE {c} = ({first})",
        {"t": t, "c": c, "v": v},
        distinct=f"SELECT AVG({v}) FROM {t} GROUP BY {c} ORDER BY AVG({v}) DESC LIMIT 2",
        steps=(first, f"SELECT COUNT(*) FROM {t} WHERE {c} = {{answer}}"),
    )


@family(
    5,
    "Find the {p.one} with the {high} {c.label}. List the {n.plural} of the {t.many} whose {l.label} it is.",
    "Which {t.many} have the {p.one} with the {high} {c.label} as their {l.label}? Give the {n.label}.",
    "List the {n.plural} of the {t.many} whose {l.label} is the {p.one} with the {high} {c.label}.",
)
def children_of_best_parent(s: Scene) -> Draft:
    """List the rows that refer to the best row."""
    link = s.link()
    p, t, n, high = link.parent, link.child, link.child.identity, s.choice(HIGH_LOW)
    c = s.number(p, full=True)
    first = f"SELECT {p.key} FROM {p} ORDER BY {c} {high.order} LIMIT 1"
    return Draft(
        f"SELECT {n} FROM {t} WHERE {link.column} = ({first})",
        {"t": t, "p": p, "l": link, "n": n, "c": c, "high": high},
        Shape.PART,
        distinct=f"SELECT {c} FROM {p} ORDER BY {c} {high.order} LIMIT 2",
        steps=(first, f"SELECT {n} FROM {t} WHERE {link.column} = {{answer}}"),
    )


@family(
    5,
    "Find the {p.one} with the most {t.many}. List the {n.plural} of those {t.many}.",
    "List the {n.plural} of the {t.many} that belong to the {p.one} with the most {t.many}.",
    "Which {t.many} have the {l.label} that more {t.many} have than any other? Give the {n.label}.",
)
def children_of_top_parent(s: Scene) -> Draft:
    """List the rows that refer to the row with the most references."""
    link = s.link(only=True, full=True)
    p, t, n, k = link.parent, link.child, link.child.identity, link.column
    first = f"SELECT {k} FROM {t} GROUP BY {k} ORDER BY COUNT(*) DESC LIMIT 1"
    return Draft(
        f"SELECT {n} FROM {t} WHERE {k} = ({first})",
        {"t": t, "p": p, "l": link, "n": n},
        Shape.PART,
        distinct=f"SELECT COUNT(*) FROM {t} GROUP BY {k} ORDER BY COUNT(*) DESC LIMIT 2",
        steps=(first, f"SELECT {n} FROM {t} WHERE {k} = {{answer}}"),
    )


@family(
    5,
    "List the {n.plural} of the other {t.many} that have the same {c.label} as the {t.one} {v}.",
    "Which {t.many} share their {c.label} with the {t.one} {v}? Give the {n.label}, without {v}.",
    "Find the {c.label} of the {t.one} {v} and list the {n.plural} of all other {t.many} with that {c.label}.",
)
def same_category(s: Scene) -> Draft:
    """List the other rows in the category of a named row."""
    t = s.named_table(Role.CATEGORY)
    c, n = s.category(t, full=True), t.identity
    v = s.value(n)
    first = f"SELECT {c} FROM {t} WHERE {n} = {literal(v)}"
    other = f"AND {n} <> {literal(v)}"
    return Draft(
        f"SELECT {n} FROM {t} WHERE {c} = ({first}) {other}",
        {"t": t, "n": n, "c": c, "v": v},
        Shape.PART,
        steps=(first, f"SELECT {n} FROM {t} WHERE {c} = {{answer}} {other}"),
    )


@family(
    5,
    "What is the {d.label} of the {l.label} of the {t.one} with the {high} {c.label}?",
    "Find the {t.one} with the {high} {c.label}. What is the {d.label} of its {l.label}?",
    "Which {d.label} does the {l.label} of the {t.one} with the {high} {c.label} have?",
)
def parent_of_best_child(s: Scene) -> Draft:
    """Look up a value of the parent of the best row."""
    link = s.link(full=True)
    t, p, k, high = link.child, link.parent, link.column, s.choice(HIGH_LOW)
    c = s.number(t, full=True)
    d = s.column(p, *NUMBERS, Role.NAME, Role.CATEGORY, Role.DATE, Role.YEAR, full=True)
    rest = f"FROM {t} ORDER BY {c} {high.order} LIMIT"
    return Draft(
        f"SELECT {d} FROM {p} WHERE {p.key} = (SELECT {k} {rest} 1)",
        {"t": t, "p": p, "l": link, "c": c, "d": d, "high": high},
        distinct=f"SELECT {c} {rest} 2",
        steps=(f"SELECT {k} {rest} 1", f"SELECT {d} FROM {p} WHERE {p.key} = {{answer}}"),
    )


@family(
    5,
    "Find the calendar year in which the most {t.many} have their {c.label}. "
    "What is the total {v.label} of the {t.many} of that year?",
    "What is the total {v.label} of the {t.many} whose {c.label} is in the year with the most {t.many} by {c.label}?",
    "By {c.label}, which calendar year has the most {t.many}? Give the total {v.label} of the {t.many} of that year.",
)
def total_of_top_year(s: Scene) -> Draft:
    """Sum a number over the year with the most rows."""
    t = s.table(Role.DATE, ADDITIVE)
    c, v = s.column(t, Role.DATE, full=True), s.column(t, *ADDITIVE)
    rest = f"FROM {t} GROUP BY YEAR({c}) ORDER BY COUNT(*) DESC LIMIT"
    first = f"SELECT YEAR({c}) {rest} 1"
    return Draft(
        f"SELECT SUM({v}) FROM {t} WHERE YEAR({c}) = ({first})",
        {"t": t, "c": c, "v": v},
        distinct=f"SELECT COUNT(*) {rest} 2",
        steps=(first, f"SELECT SUM({v}) FROM {t} WHERE YEAR({c}) = {{answer}}"),
    )


@family(
    5,
    "Among the {p.many} with at least {k} {t.many}, which one has the highest average {c.label} of its {t.many}? "
    "Give the {n.label}.",
    "Leave out {p.many} with fewer than {k} {t.many}. Which {p.one} has the highest average {c.label} of its {t.many}? "
    "Give the {n.label}.",
    "What is the {n.label} of the {p.one} whose {t.many} have the highest average {c.label}, "
    "counting only {p.many} with {k} or more {t.many}?",
)
def best_parent_of_many(s: Scene) -> Draft:
    """Find the parent with the highest average, among those with enough children."""
    link = s.link(only=True)
    p, t, n, k = link.parent, link.child, link.parent.identity, s.rng.randint(2, 4)
    c = s.number(t, full=True)
    columns = ", ".join(dict.fromkeys((f"{p}.{p.key}", f"{p}.{n}")))
    rest = f"FROM {link.join} GROUP BY {columns} HAVING COUNT(*) >= {k} ORDER BY AVG({t}.{c}) DESC LIMIT"
    return Draft(
        f"SELECT {p}.{n} {rest} 1",
        {"p": p, "t": t, "l": link, "n": n, "c": c, "k": k},
        distinct=f"SELECT AVG({t}.{c}) {rest} 2",
    )
