"""Function families about records, ranks and tables."""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import Area, Arguments, Function, block, function
from agentgym.tasks.code.material import INT_LISTS, NAMES, ints
from agentgym.tasks.code.parts import Clause, int_fold, int_map, int_test


def _records(rng: Random) -> Arguments:
    names = rng.sample(NAMES, 3)
    return ([(rng.choice(names), rng.randint(-5, 25)) for _ in range(rng.randint(3, 9))],)


@function(
    Area.LISTS,
    3,
    "Each record is a pair (name, amount). For every name, compute {value}. Return the list of (name, value) "
    "pairs whose value {test}, sorted {order}.",
    "Group the (name, amount) records by name; the value of a group is {value}. Return (name, value) for the "
    "groups whose value {test}, sorted {order}.",
    "Summarise (name, amount) pairs by name: the value of a name is {value}. Keep only the names whose value "
    "{test}, and return the list of (name, value) pairs, sorted {order}.",
)
def group_records(rng: Random) -> Function:
    """Group records, aggregate and filter the groups."""
    test = int_test(rng)
    value, code = rng.choice(
        (
            ("the sum of its amounts", "sum(amounts)"),
            ("its largest amount", "max(amounts)"),
            ("its number of records", "len(amounts)"),
            ("its last amount minus its first", "amounts[-1] - amounts[0]"),
            ("the sum of its positive amounts", "sum(a for a in amounts if a > 0)"),
            ("the mean of its amounts, rounded down", "sum(amounts) // len(amounts)"),
        )
    )
    order, key = rng.choice(
        (
            ("by name", "(p[0],)"),
            ("by value from large to small, ties by name", "(-p[1], p[0])"),
            ("by value from small to large, ties by name", "(p[1], p[0])"),
            ("by length of the name, ties by name", "(len(p[0]), p[0])"),
        )
    )
    source = block(f"""
        def summary(records: list[tuple[str, int]]) -> list[tuple[str, int]]:
            groups = {{}}
            for name, amount in records:
                groups.setdefault(name, []).append(amount)
            pairs = [(name, {code}) for name, amounts in groups.items()]
            pairs = [p for p in pairs if {test.of("p[1]")}]
            return sorted(pairs, key=lambda p: {key})
    """)
    edges = (
        ([],),
        ([("Ada", 5)],),
        ([("Bo", 3), ("Al", 3), ("Bo", 3), ("Al", 3), ("Cy", 6)],),
        ([("Ada", 8), ("Ben", -2), ("Ada", -8), ("É", 9), ("Ben", 14), ("Zoë", 9)],),
        ([("d", 12), ("c", 12), ("b", 7), ("a", 24), ("a", 1)],),
    )
    return Function(source, {"value": value, "test": test.one, "order": order}, _records, edges)


@function(
    Area.LISTS,
    4,
    "Numbers x are compared by {map}. Return the rank of every number in the list; the {best} value has rank "
    "{base}. Equal values share a rank; {ties} {out}",
    "The value of a number x is {map}. Give each number its rank: the {best} value has rank {base}, and "
    "equal values have the same rank. {Ties} Return the ranks in the order of the list. {out}",
    "Compute ranks from {base} upwards by the value of each number x, which is {map}: the {best} value gets "
    "{base}. Ties get the same rank; {ties} The result has one rank per number, in the same order. {out}",
)
def ranks(rng: Random) -> Function:
    """Rank numbers, with ties."""
    base, low, k, change = rng.choice((0, 1)), rng.random() < 0.5, rng.randint(2, 5), int_map(rng)
    rule, code = rng.choice(
        (
            ("after a tie the next rank follows without a gap.", "len({y for y in values if y %s x})"),
            ("the ranks that a tie uses up are left out after it.", "len([y for y in values if y %s x])"),
        )
    )
    out, rank_code = rng.choice(
        (
            ("", "rank"),
            (f"Ranks above {k} are given as None.", f"rank if rank <= {k} else None"),
            (f"Ranks above {k} are given as {k}.", f"min(rank, {k})"),
        )
    )
    source = block(f"""
        def rank_all(numbers: list[int]) -> list[int | None]:
            values = [{change.of("x")} for x in numbers]
            out = []
            for x in values:
                rank = {base} + {code % ("<" if low else ">")}
                out.append({rank_code})
            return out
    """)
    words = {"base": base, "best": "smallest" if low else "largest", "ties": rule, "out": out, "map": change.say("x")}
    words["Ties"] = rule[0].upper() + rule[1:]
    return Function(source, words, lambda r: (ints(r, 4, 9, -3, 6),), INT_LISTS)


@function(
    Area.LISTS,
    3,
    "Combine two lists position by position: from x in the first and y in the second, make {op}. If one list "
    "is shorter, {fill}. Return {fold}.",
    "Walk through both lists together. Each pair (x, y) gives {op}; where the lists differ in length, "
    "{fill}. Return {fold}.",
    "Let x and y run through the two lists side by side and compute {op} each time (if the lengths differ, "
    "{fill}). Return {fold}.",
    held_out=True,
)
def side_by_side(rng: Random) -> Function:
    """Combine two lists elementwise."""
    a, b, d = rng.randint(1, 5), rng.randint(1, 5), rng.randint(0, 3)
    op = rng.choice((f"{a} * x + {b} * y", f"{a} * x - y", f"x * y - {a}", f"max(x, {b} * y)", f"abs(x - y) + {a}"))
    fill, pairs = rng.choice(
        (
            ("the rest of the longer one is ignored", "zip(first, second)"),
            (f"the missing numbers count as {d}", f"zip_longest(first, second, fillvalue={d})"),
        )
    )
    fold = int_fold(rng, "the combined numbers")
    source = block(f"""
        from itertools import zip_longest


        def merge(first: list[int], second: list[int]) -> int:
            made = [{op} for x, y in {pairs}]
            return {fold.of("made")}
    """)
    edges = (([], []), ([3], []), ([], [-2, 5]), ([1, 1, 1], [1, 1]), ([-4, 7], [2, 0, 9, 9]))
    words = {"op": "`" + op.replace("1 * ", "") + "`", "fill": fill, "fold": fold}
    return Function(source, words, lambda r: (ints(r, 2, 7), ints(r, 2, 7)), edges)


def _square(rng: Random) -> Arguments:
    n = rng.randint(2, 5)
    return ([[rng.randint(-5, 15) for _ in range(n)] for _ in range(n)],)


@function(
    Area.LISTS,
    3,
    "You are given the rows of a square table of numbers. Of the cells {where}, read row by row, take the "
    "numbers that {test}. Return {fold}.",
    "In a square table (a list of rows), look only at the cells {where}. Keep the numbers that {test}, "
    "reading row by row, left to right, and return {fold}.",
    "From a square table (a list of rows, read row by row), take the numbers that {test} and stand {where}. "
    "Return {fold}.",
)
def table_cells(rng: Random) -> Function:
    """Choose cells of a square table."""
    test, fold, k = int_test(rng), int_fold(rng, "the chosen numbers"), rng.randint(2, 3)
    where = rng.choice(
        (
            Clause("on the diagonal from top left to bottom right", "r == c"),
            Clause("on the diagonal from top right to bottom left", "r + c == n - 1"),
            Clause("on the outer border", "r in (0, n - 1) or c in (0, n - 1)"),
            Clause("strictly above the main diagonal", "c > r"),
            Clause("on or below the main diagonal", "c <= r"),
            Clause(f"where row plus column (both from 0) is a multiple of {k}", f"(r + c) % {k} == 0"),
            Clause(f"in the first {k} columns", f"c < {k}"),
        )
    )
    source = block(f"""
        def cells(table: list[list[int]]) -> int:
            n = len(table)
            chosen = []
            for r in range(n):
                for c in range(n):
                    x = table[r][c]
                    if ({where.code}) and {test.of("x")}:
                        chosen.append(x)
            return {fold.of("chosen")}
    """)
    edges = (([],), ([[7]],), ([[2, 2], [2, 2]],), ([[-3, 0, 8], [5, 14, -6], [1, 9, 10]],))
    return Function(source, {"where": where, "test": test, "fold": fold}, _square, edges)
