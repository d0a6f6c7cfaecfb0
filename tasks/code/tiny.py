"""Value families of level 1: short prompts (120 characters at most), one-line programs, small whole numbers.

Very small models train on these, so the wording stays short and plain.
"""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import Area, Program, value
from agentgym.tasks.code.material import letters
from agentgym.tasks.code.parts import Clause


def _print(expression: str, **words: object) -> Program:
    return Program(f"print({expression})\n", words, needs_code=False)


def _numbers(rng: Random, least: int = 3, most: int = 6, high: int = 20) -> list[int]:
    return [rng.randint(0, high) for _ in range(rng.randint(least, most))]


def _test(rng: Random) -> Clause:
    k = rng.randint(3, 15)
    return rng.choice(
        (
            Clause("even", "x % 2 == 0"),
            Clause("odd", "x % 2 == 1"),
            Clause(f"above {k}", f"x > {k}"),
            Clause(f"below {k}", f"x < {k}"),
            Clause(f"divisible by {k % 3 + 2}", f"x % {k % 3 + 2} == 0"),
        )
    )


def _those(test: Clause) -> str:
    """Return what passes the test: `even numbers`, `numbers above 7`."""
    return f"{test} numbers" if test.text in ("even", "odd") else f"numbers {test}"


@value(
    Area.LISTS,
    1,
    "Sum the {those} in {xs}.",
    "What is the sum of the {those} in {xs}?",
    "Add up the {those} in {xs}.",
)
def tiny_sum(rng: Random) -> Program:
    """Sum some of the numbers."""
    xs, test = _numbers(rng), _test(rng)
    return _print(f"sum(x for x in {xs} if {test.code})", xs=xs, those=_those(test))


@value(
    Area.LISTS,
    1,
    "Count the {those} in {xs}.",
    "How many {those} are there in {xs}?",
    "How many of {xs} are {test}?",
)
def tiny_count(rng: Random) -> Program:
    """Count some of the numbers."""
    xs, test = _numbers(rng, 4, 10, 15), _test(rng)
    return _print(f"sum({test.code} for x in {xs})", xs=xs, those=_those(test), test=test)


@value(Area.LISTS, 1, "What is the {which} of {xs}?", "Find the {which} of {xs}.", "Give the {which} of {xs}.")
def tiny_pick(rng: Random) -> Program:
    """Find one number of a list."""
    xs, k = _numbers(rng, 4, 6, 50), rng.randint(2, 3)
    nth = {2: "second", 3: "third"}[k]
    which, code = rng.choice(
        (
            ("largest number", f"max({xs})"),
            ("smallest number", f"min({xs})"),
            (f"{nth} number", f"{xs}[{k - 1}]"),
            ("last number", f"{xs}[-1]"),
            (f"{nth} largest number (repeats count)", f"sorted({xs})[-{k}]"),
            ("largest number minus the smallest", f"max({xs}) - min({xs})"),
        )
    )
    return _print(code, xs=xs, which=which)


@value(Area.NUMERIC, 1, "What is {e}?", "Compute {e}.", "Work out {e}.")
def tiny_arithmetic(rng: Random) -> Program:
    """Compute an expression."""
    a, b, c = rng.randint(2, 12), rng.randint(2, 12), rng.randint(1, 20)
    forms = (f"{a} * {b} + {c}", f"{a} * {b} - {c}", f"{c} + {a} * {b}", f"({a} + {c}) * {b}", f"{c} - {a} + {b}")
    expression = rng.choice(forms)
    return _print(expression, e=expression)


@value(
    Area.NUMERIC,
    1,
    "What is the remainder of {a} divided by {b}?",
    "Compute {a} modulo {b}.",
    "Divide {a} by {b}. What is left over?",
)
def tiny_remainder(rng: Random) -> Program:
    """Compute a remainder."""
    a, b = rng.randint(20, 300), rng.randint(6, 19)
    return _print(f"{a} % {b}", a=a, b=b)


@value(
    Area.NUMERIC, 1, "What is the sum of the digits of {n}?", "Add the digits of {n}.", "Compute the digit sum of {n}."
)
def tiny_digits(rng: Random) -> Program:
    """Add digits."""
    n = rng.randint(10, 10 ** rng.randint(3, 6))
    return _print(f'sum(map(int, "{n}"))', n=n)


@value(
    Area.STRINGS,
    1,
    "How many times does {c} occur in {s}?",
    "Count every {c} in {s}.",
    "How often does {c} appear in {s}?",
)
def tiny_letters(rng: Random) -> Program:
    """Count a letter."""
    s = letters(rng, "".join(rng.sample("abcdeorst", rng.randint(2, 3))), 4, 18)
    c = rng.choice(s)
    return _print(f'"{s}".count("{c}")', c=f'"{c}"', s=f'"{s}"')


@value(
    Area.STRINGS,
    1,
    "How many characters does {s} have?",
    "Count the characters of {s}.",
    "What is the length of {s}?",
)
def tiny_length(rng: Random) -> Program:
    """Measure a text."""
    s = letters(rng, "abcdeorst", 3, 18)
    return _print(f'len("{s}")', s=f'"{s}"')


@value(
    Area.LISTS,
    1,
    "How many different numbers are in {xs}?",
    "Count the distinct numbers in {xs}.",
    "How many distinct values does {xs} have?",
    held_out=True,
)
def tiny_distinct(rng: Random) -> Program:
    """Count distinct numbers."""
    xs = _numbers(rng, 3, 14, rng.randint(2, 20))
    return _print(f"len(set({xs}))", xs=xs)


@value(
    Area.NUMERIC,
    1,
    "Sum the multiples of {k} from {a} to {b}.",
    "Add all numbers from {a} to {b} divisible by {k}.",
    "What is the sum of the multiples of {k} from {a} to {b}?",
)
def tiny_multiples(rng: Random) -> Program:
    """Sum multiples."""
    k, a = rng.randint(2, 6), rng.randint(1, 12)
    b = a + rng.randint(k, 15)
    return _print(f"sum(x for x in range({a}, {b + 1}) if x % {k} == 0)", k=k, a=a, b=b)
