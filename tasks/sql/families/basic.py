"""Level 1: one table, one clause, few words. Small models train on these, so prompts and SQL stay short."""

from __future__ import annotations

from agentgym.tasks.sql.conditions import literal
from agentgym.tasks.sql.domains import ADDITIVE, NUMBERS, Role
from agentgym.tasks.sql.questions import Shape, SQLDraft, family
from agentgym.tasks.sql.scene import HIGH_LOW, SQLScene


@family(
    1,
    "How many {t.many} are there?",
    "How many {t.many} are in the database?",
    "I need a count of all {t.many}.",
    "What's the total number of {t.many}?",
    plain=(
        "How many {t.many} are there?",
        "Count all {t.many}.",
        "What is the number of {t.many}?",
    ),
)
def count_all(s: SQLScene) -> SQLDraft:
    """Count the rows of a table."""
    t = s.table()
    return SQLDraft(f"SELECT COUNT(*) FROM {t}", {"t": t})


@family(
    1,
    "How many {t.many} are there whose {c.label} is {v}?",
    "How many {t.many} {f} are there?",
    'How many of the {t.many} have "{v}" as their {c.label}?',
    'Count the {t.many} with the {c.label} "{v}".',
    "What's the number of {t.many} whose {c.label} is {v}?",
)
def count_equal(s: SQLScene) -> SQLDraft:
    """Count the rows with a given value of a category."""
    t = s.table(Role.CATEGORY)
    c = s.category(t)
    v = s.value(c)
    words = {"t": t, "c": c, "v": v, "f": s.with_value(c, v)}
    return SQLDraft(f"SELECT COUNT(*) FROM {t} WHERE {c} = {literal(v)}", words)


@family(
    1,
    "How many {t.many} have {c.a} above {v}?",
    "Count the {t.many} whose {c.label} is greater than {v}.",
    "How many of the {t.many} have {c.a} of more than {v}?",
)
def count_above(s: SQLScene) -> SQLDraft:
    """Count the rows above a number."""
    t = s.table(NUMBERS)
    c = s.number(t)
    v = s.threshold(c)
    return SQLDraft(f"SELECT COUNT(*) FROM {t} WHERE {c} > {v}", {"t": t, "c": c, "v": v})


@family(
    1,
    "How many {t.many} have {c.a} below {v}?",
    "Count the {t.many} whose {c.label} is less than {v}.",
    "How many of the {t.many} have {c.a} of less than {v}?",
)
def count_below(s: SQLScene) -> SQLDraft:
    """Count the rows below a number."""
    t = s.table(NUMBERS)
    c = s.number(t)
    v = s.threshold(c)
    return SQLDraft(f"SELECT COUNT(*) FROM {t} WHERE {c} < {v}", {"t": t, "c": c, "v": v})


@family(
    1,
    "How many {t.many} {are}?",
    "Count the {t.many} {g}.",
    "What's the number of {t.many} {g}?",
    "I need to know how many {t.many} we have {g}.",
    plain=(
        "How many {t.many} are there {f}?",
        "Count the {t.many} {f}.",
        "What is the number of {t.many} {f}?",
    ),
)
def count_flag(s: SQLScene) -> SQLDraft:
    """Count the rows whose flag is set."""
    t = s.table(Role.FLAG)
    c = s.column(t, Role.FLAG)
    clause = c.spec["said"]
    words = {"t": t, "c": c, "f": clause, "g": s.flagged(c, t.who, is_set=True), "are": clause.removeprefix("that ")}
    return SQLDraft(f"SELECT COUNT(*) FROM {t} WHERE {c}", words)


@family(
    1,
    "List the {n.plural} of the {t.many} whose {c.label} is {v}.",
    'Which {t.many} have "{v}" as their {c.label}? Return their {n.plural}.',
    "I need the {n.plural} of all {t.many} {f}.",
    'Give me the {n.label} of every {t.one} with the {c.label} "{v}".',
    "I'm looking for all {t.many} whose {c.label} is {v}. What are their {n.plural}?",
)
def list_equal(s: SQLScene) -> SQLDraft:
    """List the rows with a given value of a category."""
    t = s.table(Role.CATEGORY)
    c = s.category(t)
    v, n = s.value(c), t.identity
    words = {"t": t, "n": n, "c": c, "v": v, "f": s.with_value(c, v)}
    return SQLDraft(f"SELECT {n} FROM {t} WHERE {c} = {literal(v)}", words, Shape.PART)


@family(
    1,
    "List the {n.plural} of the {t.many} whose {c.label} is above {v}.",
    "Which {t.many} have {c.a} greater than {v}? Return their {n.plural}.",
    "Give me the {n.label} of every {t.one} with {c.a} of more than {v}.",
)
def list_above(s: SQLScene) -> SQLDraft:
    """List the rows above a number."""
    t = s.table(NUMBERS)
    c, n = s.number(t), t.identity
    v = s.threshold(c)
    return SQLDraft(f"SELECT {n} FROM {t} WHERE {c} > {v}", {"t": t, "n": n, "c": c, "v": v}, Shape.PART)


@family(
    1,
    "List the {n.plural} of all {t.many}.",
    "What are the {n.plural} of the {t.many}?",
    "Give me the {n.label} of every {t.one}.",
    "I need a list of all {t.many}; just the {n.plural}, please.",
    plain=(
        "List the {n.plural} of all {t.many}.",
        "Show the {n.label} of every {t.one}.",
        "What are the {n.plural} of the {t.many}?",
    ),
)
def list_all(s: SQLScene) -> SQLDraft:
    """List the names of all rows of a table."""
    t = s.table()
    return SQLDraft(f"SELECT {t.identity} FROM {t}", {"t": t, "n": t.identity}, Shape.ROWS)


@family(
    1,
    "Which different {c.plural} do the {t.many} have?",
    "List the {c.plural} that occur among the {t.many}, each one once.",
    "What are the distinct {c.plural} of the {t.many}?",
    plain=(
        "List the different {c.plural} of the {t.many}.",
        "Which different {c.plural} do the {t.many} have?",
        "Show every {c.label} of the {t.many} once.",
    ),
)
def distinct_values(s: SQLScene) -> SQLDraft:
    """List the distinct values of a category."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    return SQLDraft(f"SELECT DISTINCT {c} FROM {t}", {"t": t, "c": c}, Shape.ROWS)


@family(
    1,
    "How many different {c.plural} do the {t.many} have?",
    "How many distinct {c.plural} are there among the {t.many}?",
    "Count the different {c.plural} that occur among the {t.many}.",
    plain=(
        "How many different {c.plural} do the {t.many} have?",
        "Count the different {c.plural} of the {t.many}.",
        "What is the number of different {c.plural} among the {t.many}?",
    ),
)
def count_distinct(s: SQLScene) -> SQLDraft:
    """Count the distinct values of a category."""
    t = s.table(Role.CATEGORY)
    c = s.category(t, full=True)
    return SQLDraft(f"SELECT COUNT(DISTINCT {c}) FROM {t}", {"t": t, "c": c})


@family(
    1,
    "What is the {high} {c.label} of all {t.many}?",
    "What's the maximum {c.label} among the {t.many}?",
    "Find the {high} {c.label} that any {t.one} has.",
    plain=(
        "What is the highest {c.label} of all {t.many}?",
        "Give the maximum {c.label} of the {t.many}.",
        "What is the largest {c.label} among the {t.many}?",
    ),
)
def maximum(s: SQLScene) -> SQLDraft:
    """Find the highest value of a number."""
    t = s.table(NUMBERS)
    c = s.number(t)
    return SQLDraft(f"SELECT MAX({c}) FROM {t}", {"t": t, "c": c, "high": HIGH_LOW[0].of(c)})


@family(
    1,
    "What is the {low} {c.label} of all {t.many}?",
    "What's the minimum {c.label} among the {t.many}?",
    "Find the {low} {c.label} that any {t.one} has.",
    plain=(
        "What is the lowest {c.label} of all {t.many}?",
        "Give the minimum {c.label} of the {t.many}.",
        "What is the smallest {c.label} among the {t.many}?",
    ),
)
def minimum(s: SQLScene) -> SQLDraft:
    """Find the lowest value of a number."""
    t = s.table(NUMBERS)
    c = s.number(t)
    return SQLDraft(f"SELECT MIN({c}) FROM {t}", {"t": t, "c": c, "low": HIGH_LOW[1].of(c)})


@family(
    1,
    "What is the average {c.label} of all {t.many}?",
    "What's the mean {c.label} of the {t.many}?",
    "I'd like to know the average {c.label} across all {t.many}.",
    plain=(
        "What is the average {c.label} of all {t.many}?",
        "Give the average {c.label} of the {t.many}.",
        "What is the mean {c.label} of the {t.many}?",
    ),
)
def average(s: SQLScene) -> SQLDraft:
    """Average a number."""
    t = s.table(NUMBERS)
    c = s.number(t)
    return SQLDraft(f"SELECT AVG({c}) FROM {t}", {"t": t, "c": c})


@family(
    1,
    "What is the total {c.label} of all {t.many}?",
    "What do the {c.plural} of all {t.many} add up to?",
    "Add up the {c.plural} of all {t.many}. What is the total?",
    plain=(
        "What is the total {c.label} of all {t.many}?",
        "Give the total {c.label} of the {t.many}.",
        "What is the sum of the {c.plural} of all {t.many}?",
    ),
)
def total(s: SQLScene) -> SQLDraft:
    """Sum a number."""
    t = s.table(ADDITIVE)
    c = s.column(t, *ADDITIVE)
    return SQLDraft(f"SELECT SUM({c}) FROM {t}", {"t": t, "c": c})


@family(
    1,
    "What is the {c.label} of the {t.one} {v}?",
    "Look up the {c.label} of the {t.one} {v}.",
    "Can you tell me the {c.label} of the {t.one} whose {n.label} is {v}?",
)
def lookup(s: SQLScene) -> SQLDraft:
    """Look up one value of a named row."""
    t = s.named_table()
    c = s.column(t, *NUMBERS, Role.CATEGORY, Role.DATE, Role.YEAR)
    v = s.value(t.identity)
    words = {"t": t, "c": c, "n": t.identity, "v": v}
    return SQLDraft(f"SELECT {c} FROM {t} WHERE {t.identity} = {literal(v)}", words)
