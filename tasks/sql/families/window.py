"""Level 5, windows: ranks, running totals, changes, and rows compared with their own group."""

from __future__ import annotations

from agentgym.tasks.sql.domains import ADDITIVE, NUMBERS, Role
from agentgym.tasks.sql.questions import Shape, SQLDraft, family
from agentgym.tasks.sql.scene import HIGH_LOW, SQLScene


@family(
    5,
    "Which {t.many} have {v.a} {above} the average of all {t.many} with the same {c.label}? Return their {n.plural}.",
    "List the {n.plural} of the {t.many} whose {v.label} is {above} the average for their own {c.label}.",
    "Compare the {v.label} of each {t.one} with the mean {v.label} for {t.its} {c.label}. I need the "
    "{n.plural} of those that are {above} the mean.",
)
def beyond_own_average(s: SQLScene) -> SQLDraft:
    """List the rows above or below the average of their category."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, v, n = s.category(t, full=True), s.number(t), t.identity
    above, sign = s.choice((("above", ">"), ("below", "<")))
    own = f"SELECT AVG(o.{v}) FROM {t} AS o WHERE o.{c} = {t}.{c}"
    sql = f"SELECT {n} FROM {t} WHERE {v} {sign} ({own})"
    return SQLDraft(sql, {"t": t, "n": n, "v": v, "c": c, "above": above}, Shape.PART)


@family(
    5,
    "For each {c.label}, which {k} {t.many} have the {high} {v.label}? Return the {c.label} and the "
    "{n.label}; where there are fewer than {k}, list them all.",
    "Group the {t.many} by {c.label} and take the {k} with the {high} {v.label} from each group, or the "
    "whole group if it is smaller. I need the {c.label} and the {n.label}.",
    "List the {c.label} and the {n.label} of every {t.one} that is among the {k} with the {high} "
    "{v.label} for {t.its} {c.label}.",
)
def top_k_in_each(s: SQLScene) -> SQLDraft:
    """List the k best rows of each category."""
    t = s.table(Role.CATEGORY, NUMBERS)
    c, v, n, high = s.category(t, full=True), s.number(t, full=True), t.identity, s.choice(HIGH_LOW)
    k = s.rng.randint(2, 4)
    window = f"ROW_NUMBER() OVER (PARTITION BY {c} ORDER BY {v} {high.order}) AS place"
    ranks = f"SELECT {c}, {n}, RANK() OVER (PARTITION BY {c} ORDER BY {v} {high.order}) AS place FROM {t}"
    return SQLDraft(
        f"SELECT {c}, {n} FROM (SELECT {c}, {n}, {window} FROM {t}) AS ranked WHERE place <= {k}",
        {"t": t, "c": c, "v": v, "n": n, "k": k, "high": high.of(v)},
        Shape.PART,
        distinct=f"SELECT {c} || '/' || place FROM ({ranks}) AS ranked WHERE place <= {k + 1}",
    )


@family(
    5,
    "Rank the {t.many} {f} by {v.label}, with 1 for the {high}. Return the {n.label} and the rank.",
    "For the {t.many} {f}, list the {n.label} and the rank by {v.label} among them, where 1 is the {high}.",
    "Looking only at the {t.many} {f}, what rank does each of them have by {v.label} (1 is the {high})? "
    "I need the {n.label} and the rank.",
)
def rank_where(s: SQLScene) -> SQLDraft:
    """Rank some rows by a number."""
    t = s.table(NUMBERS)
    v, n, high = s.number(t, full=True), t.identity, s.choice(HIGH_LOW)
    f = s.condition(t, besides=(v,))
    return SQLDraft(
        f"SELECT {n}, RANK() OVER (ORDER BY {v} {high.order}) FROM {t} WHERE {f.sql()}",
        {"t": t, "n": n, "v": v, "f": f, "high": high.of(v)},
        Shape.ROWS,
        distinct=f"SELECT {v} FROM {t} WHERE {f.sql()}",
    )


@family(
    5,
    "For the {t.many} {f}, list each {d.label} with the running total of the {v.label} up to and "
    "including it, earliest first.",
    "Go through the {t.many} {f} by {d.label}, earliest first. Return the {d.label} and the cumulative "
    "{v.label} so far, in that order.",
    "I need a running total of the {v.plural} of the {t.many} {f}: the {d.label} and the sum up to that "
    "point, sorted by {d.label}.",
)
def running_total(s: SQLScene) -> SQLDraft:
    """Compute a running sum of a number over the dates of some rows."""
    t = s.table(Role.DATE, ADDITIVE)
    d, v = s.column(t, Role.DATE, full=True), s.column(t, *ADDITIVE, full=True)
    f = s.condition(t, besides=(d, v))
    return SQLDraft(
        f"SELECT {d}, SUM({v}) OVER (ORDER BY {d}) FROM {t} WHERE {f.sql()} ORDER BY {d}",
        {"t": t, "d": d, "v": v, "f": f},
        Shape.ROWS,
        ordered=True,
        distinct=f"SELECT {d} FROM {t} WHERE {f.sql()}",
    )


@family(
    5,
    "Put the {t.many} {f} in order of {d.label}. For each one but the first, return the {d.label} and by "
    "how much the {v.label} changed from the one before, sorted by {d.label}.",
    "For the {t.many} {f}, sorted by {d.label}, list the {d.label} and the {v.label} minus that of the "
    "previous one. Leave out the first.",
    "How does the {v.label} of the {t.many} {f} change from one to the next by {d.label}? Return the "
    "{d.label} of the later one and the difference (later minus earlier), sorted by {d.label}.",
)
def change_from_previous(s: SQLScene) -> SQLDraft:
    """Subtract the previous row's number from each row's number."""
    t = s.table(Role.DATE, NUMBERS)
    d, v = s.column(t, Role.DATE, full=True), s.number(t, full=True)
    f = s.condition(t, besides=(d, v))
    inner = f"SELECT {d}, {v} - LAG({v}) OVER (ORDER BY {d}) AS change FROM {t} WHERE {f.sql()}"
    return SQLDraft(
        f"SELECT {d}, change FROM ({inner}) AS steps WHERE change IS NOT NULL ORDER BY {d}",
        {"t": t, "d": d, "v": v, "f": f},
        Shape.ROWS,
        ordered=True,
        distinct=f"SELECT {d} FROM {t} WHERE {f.sql()}",
    )


@family(
    5,
    "What percentage (0 to 100) of the total {v.label} of all {t.many} does each {c.label} account for? "
    "Return the {c.label} and the percentage.",
    "List each {c.label} of the {t.many} with its share of the total {v.label} of all {t.many}, as a "
    "percentage from 0 to 100.",
    "How is the total {v.label} of the {t.many} divided among the {c.plural}? I need the {c.label} and "
    "its percentage (0 to 100).",
)
def share_per_category(s: SQLScene) -> SQLDraft:
    """Find each category's percentage of a sum."""
    t = s.table(Role.CATEGORY, ADDITIVE)
    c, v = s.category(t, full=True), s.column(t, *ADDITIVE, full=True)
    sql = f"SELECT {c}, 100.0 * SUM({v}) / (SELECT SUM({v}) FROM {t}) FROM {t} GROUP BY {c}"
    return SQLDraft(sql, {"t": t, "c": c, "v": v}, Shape.ROWS)


@family(
    5,
    "For each {l.label} {f.one}, which {t.one} has the {high} {v.label}? Return the {l.label}'s "
    "{p.label} and the {t.one}'s {n.label}. Leave out any {l.label} without {t.many}.",
    "Take every {l.label} {f.one} and find {l.parent.its} {t.one} with the {high} {v.label}. I need the "
    "{p.label} of the {l.label} and the {n.label} of the {t.one}; leave out any {l.label} without "
    "{t.many}.",
    "List the {p.label} of each {l.label} {f.one} next to the {n.label} of {l.parent.its} {t.one} with "
    "the {high} {v.label}, without any {l.label} that has no {t.many}.",
)
def best_child_of_each(s: SQLScene) -> SQLDraft:
    """Find the best row of each parent that meets a condition."""
    link = s.link(named=True, only=True)
    t, n, p, high = link.child, link.child.identity, link.parent.identity, s.choice(HIGH_LOW)
    v, f = s.number(t, full=True), s.condition(link.parent)
    window = f"RANK() OVER (PARTITION BY {t}.{link.column} ORDER BY {t}.{v} {high.order}) AS place"
    named = f"{link.parent}.{p} AS parent, {t}.{n} AS child"
    ranked = f"SELECT {named}, {window} FROM {link.join} WHERE {f.sql(link.parent.name)}"
    return SQLDraft(
        f"SELECT parent, child FROM ({ranked}) AS ranked WHERE place = 1",
        {"t": t, "l": link, "n": n, "p": p, "v": v, "f": f, "high": high.of(v)},
        Shape.ROWS,
        distinct=f"SELECT parent FROM ({ranked}) AS ranked WHERE place = 1",
    )
