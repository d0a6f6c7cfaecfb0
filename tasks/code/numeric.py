"""Function families about numbers: digits, ranges, recurrences, units."""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import Area, Function, block, function
from agentgym.tasks.code.parts import int_fold, int_map, int_test, two_maps

_NUMBERS = ((0,), (1,), (-1,), (10,), (-37,), (100,))


@function(
    Area.NUMERIC,
    1,
    "Take an integer n. If it {test}, return {yes}; otherwise return {no}.",
    "Return {yes} if the integer n {test}, and {no} in all other cases.",
    "Given an integer n, return {no}, unless n {test}; in that case, return {yes}.",
)
def adjust_number(rng: Random) -> Function:
    """Choose between two formulas."""
    test, (yes, no) = int_test(rng), two_maps(rng)
    source = block(f"""
        def adjust(n: int) -> int:
            if {test.of("n")}:
                return {yes.of("n")}
            return {no.of("n")}
    """)
    words = {"test": test.one, "yes": yes.say("n"), "no": no.say("n")}
    return Function(source, words, lambda r: (r.randint(-40, 60),), _NUMBERS)


@function(
    Area.NUMERIC,
    2,
    "Look at the decimal digits of n from left to right, ignoring the sign. Keep the digits that {test}, and "
    "return {fold}.",
    "Take the decimal digits of the integer n in order, without the sign, and drop all except those that "
    "{test}. Return {fold}.",
    "Going through the digits of n from left to right (ignore a minus sign), keep only those that {test}. "
    "Return {fold}.",
)
def digit_rule(rng: Random) -> Function:
    """Keep some digits and combine them."""
    test, fold = int_test(rng), int_fold(rng, "the kept digits")
    source = block(f"""
        def digits(n: int) -> int:
            kept = [d for d in map(int, str(abs(n))) if {test.of("d")}]
            return {fold.of("kept")}
    """)
    edges = ((0,), (7,), (-505,), (11111,), (9876543210,))
    return Function(source, {"test": test, "fold": fold}, lambda r: (r.randint(-99, 10 ** r.randint(2, 9)),), edges)


@function(
    Area.NUMERIC,
    2,
    "Of the integers from low to high (both included), take those that {first} and that also {second}. "
    "Return {fold}.{swap}",
    "Collect, in increasing order, all integers x with low <= x <= high that {first} and {second}. Return "
    "{fold}.{swap}",
    "Given two inclusive bounds, take the integers from one to the other, in increasing order, that {first} "
    "and that also {second}. Return {fold}.{swap}",
)
def between(rng: Random) -> Function:
    """Collect the integers of a range that pass two tests."""
    first, second, fold, swaps = (
        int_test(rng),
        int_test(rng),
        int_fold(rng, "the collected numbers"),
        rng.random() < 0.5,
    )
    ordered = "    low, high = min(low, high), max(low, high)\n" if swaps else ""
    source = (
        "def between(low: int, high: int) -> int:\n"
        f"{ordered}"
        f"    found = [x for x in range(low, high + 1) if {first.of('x')} and {second.of('x')}]\n"
        f"    return {fold.of('found')}\n"
    )
    swap = " If low is above high, swap them." if swaps else " If low is above high, there are none."
    words = {"first": first, "second": second, "fold": fold, "swap": swap}
    edges = ((0, 0), (5, -5), (-12, 12), (7, 7), (1, 30), (20, 3))
    return Function(source, words, lambda r: (r.randint(-20, 20), r.randint(0, 60)), edges)


@function(
    Area.NUMERIC,
    3,
    "A sequence starts with a(0) = {p} and a(1) = {q}. After that, a(n) = ({u}a(n-1) + {v}a(n-2){w}) modulo "
    "{m}. Return a(n) for n >= 0.",
    "Let a(0) = {p} and a(1) = {q}. Each further term is {us}the previous one plus {vs}the one before "
    "that{ws}, all modulo {m}. Return term number n, counting from 0.",
    "Return the n-th term (n = 0, 1, 2, ...) of the sequence {p}, {q}, ... where each later term x depends "
    "on the two before it, y (older) and z (newer): x = ({u}z + {v}y{w}) % {m}.",
)
def recurrence(rng: Random) -> Function:
    """Compute a term of a recurrence of order two."""
    m = rng.choice((97, 101, 257, 1000, 1009, 9973))
    p, q, u, v, w = (rng.randint(*bounds) for bounds in ((0, 9), (1, 12), (1, 5), (1, 5), (0, 7)))
    source = block(f"""
        def term(n: int) -> int:
            older, newer = {p}, {q}
            for _ in range(n):
                older, newer = newer, ({u} * newer + {v} * older + {w}) % {m}
            return older
    """)
    words = {"p": p, "q": q, "m": m, "w": f" + {w}" if w else "", "ws": f", plus {w}" if w else ""}
    words |= {name: f"{factor} * " if factor > 1 else "" for name, factor in (("u", u), ("v", v))}
    words |= {name: f"{factor} times " if factor > 1 else "" for name, factor in (("us", u), ("vs", v))}
    return Function(source, words, lambda r: (r.randint(3, 60),), ((0,), (1,), (2,), (3,), (90,)))


@function(
    Area.NUMERIC,
    3,
    "Start with x and repeat this {t} times: if x {test}, replace it with {yes}, otherwise with {no}; "
    "then reduce it modulo {m}. Return {result}.",
    "Do the following {t} times: x becomes {yes} if it {test}, and {no} if not, and then only the remainder "
    "modulo {m} is kept. Return {result}.",
    "A number x changes {t} times in a row. When x {test}, the next x is {yes}, reduced modulo {m}; "
    "otherwise it is {no}, reduced modulo {m}. Return {result}.",
)
def step_rule(rng: Random) -> Function:
    """Apply a rule repeatedly."""
    test, (yes, no), m, t = int_test(rng), two_maps(rng), rng.choice((50, 64, 97, 100, 360)), rng.randint(4, 15)
    result, code = rng.choice(
        (
            ("the last x", "x"),
            ("the sum of the new values of x", "sum(seen)"),
            ("the largest of the new values of x", "max(seen)"),
            ("the sum of the last three new values of x", "sum(seen[-3:])"),
        )
    )
    source = block(f"""
        def change(x: int) -> int:
            seen = []
            for _ in range({t}):
                if {test.of("x")}:
                    x = ({yes.of("x")}) % {m}
                else:
                    x = ({no.of("x")}) % {m}
                seen.append(x)
            return {code}
    """)
    words = {"test": test.one, "yes": yes.say("x"), "no": no.say("x"), "m": m, "t": t, "result": result}
    return Function(source, words, lambda r: (r.randint(-50, 150),), _NUMBERS)


_UNITS = (
    ("crate", "box", "jar"),
    ("mile", "rod", "foot"),
    ("league", "chain", "step"),
    ("crown", "shilling", "penny"),
    ("gross", "dozen", "piece"),
    ("ton", "sack", "scoop"),
)
_PLURALS = {"box": "boxes", "foot": "feet", "penny": "pence", "gross": "gross", "dozen": "dozen"}


@function(
    Area.NUMERIC,
    3,
    "One {big} is {b} {mids}, and one {mid} is {s} {smalls}. Write n {smalls} as text such as `2 {big} 3 {mid} "
    "1 {small}`: unit names stay in the singular, and parts that are 0 are left out. For 0, return `0 "
    "{small}`; a negative n gets `minus ` in front.",
    "The argument is a number of {smalls}. Return it as text in the units {big}, {mid} and {small}, largest "
    "first: {b} {mids} make one {big}, and {s} {smalls} make one {mid}. Skip parts that are zero, put one space "
    "between parts, and never use a plural (`4 {mid} 1 {small}`). 0 gives `0 {small}`, and a negative number "
    "begins with `minus `.",
    "Split n {smalls} into {bigs}, {mids} and {smalls} ({s} {smalls} to the {mid}, {b} {mids} to the {big}) and "
    "describe the amount like `1 {big} 2 {mid}`, with singular names and without parts that are zero. An "
    "amount of 0 is `0 {small}`. For negative amounts, write `minus ` and then the text for the amount "
    "without its sign.",
)
def mixed_units(rng: Random) -> Function:
    """Express an amount in three units."""
    big, mid, small = rng.choice(_UNITS)
    b, s = rng.randint(3, 24), rng.randint(3, 24)
    source = block(f"""
        def describe(n: int) -> str:
            total = abs(n)
            counts = [(total // {b * s}, {big!r}), (total // {s} % {b}, {mid!r}), (total % {s}, {small!r})]
            parts = [str(count) + " " + name for count, name in counts if count > 0]
            text = " ".join(parts) if parts else "0 {small}"
            return "minus " + text if n < 0 else text
    """)
    names = {"big": big, "mid": mid, "small": small}
    words = names | {"b": b, "s": s}
    words |= {f"{size}s": _PLURALS.get(unit, f"{unit}s") for size, unit in names.items()}
    edges = ((0,), (s,), (b * s,), (-1,), (-b * s - 1,), (b * s - 1,))
    return Function(source, words, lambda r: (r.randint(-20, 3 * b * s),), edges)


@function(
    Area.NUMERIC,
    4,
    "Count the pairs of positions (i, j) with i < j for which {value} {test}, where x is the number at i and "
    "y the number at j.",
    "For every two positions i < j, let x and y be the numbers there. In how many cases is it true that "
    "{value} {test}?",
    "Take any two numbers of the list, x the earlier and y the later one. Return for how many such pairs of "
    "positions {value} {test}.",
    held_out=True,
)
def pair_count(rng: Random) -> Function:
    """Count pairs whose combination passes a test."""
    test, a, b = int_test(rng), rng.randint(1, 4), rng.randint(1, 4)
    text, code = rng.choice(
        (
            (f"{a} * x + {b} * y", f"{a} * x + {b} * y"),
            (f"{a} * x - {b} * y", f"{a} * x - {b} * y"),
            (f"x * y + {a}", f"x * y + {a}"),
            (f"max(x, y) - {a} * min(x, y)", f"max(x, y) - {a} * min(x, y)"),
        )
    )
    source = block(f"""
        def pairs(numbers: list[int]) -> int:
            count = 0
            for j in range(len(numbers)):
                for i in range(j):
                    x, y = numbers[i], numbers[j]
                    value = {code}
                    if {test.of("value")}:
                        count += 1
            return count
    """)
    edges = (([],), ([4],), ([5, 5, 5, 5],), ([-3, 2, 7, -8, 0],), ([1, 2, 3, 4, 5, 6, 7, 8],))
    text = text.replace("1 * ", "")
    return Function(source, {"value": f"`{text}`", "test": test.one}, lambda r: (_some(r),), edges)


@function(
    Area.NUMERIC,
    1,
    "Return {outer}, where y is {inner}.",
    "First let y be {inner}. Then return {outer}.",
    "Compute {inner} and call it y; the result is {outer}.",
)
def two_step_formula(rng: Random) -> Function:
    """Apply one formula after another."""
    inner, outer = int_map(rng), int_map(rng)
    source = block(f"""
        def formula(x: int) -> int:
            y = {inner.of("x")}
            return {outer.of("y")}
    """)
    return Function(
        source, {"inner": inner.say("x"), "outer": outer.say("y")}, lambda r: (r.randint(-30, 40),), _NUMBERS
    )


def _some(rng: Random) -> list[int]:
    return [rng.randint(-9, 20) for _ in range(rng.randint(4, 9))]
