"""Value families of level 2 that are short stories; a good reader can solve them without code."""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import Area, Program, value
from agentgym.tasks.code.material import ITEMS, NAMES


@value(
    Area.NUMERIC,
    2,
    "{who} buys {a} {first} at {p} each and {b} {second} at {q} each{off}. {pays} How much change is given?",
    "In a shop, {first} cost {p} each and {second} {q} each{off}. {who} takes {a} {first} and {b} {second}. {pays} "
    "How much money comes back?",
    "{first} are {p} apiece, {second} {q} apiece{off}. {who} wants {a} of the former and {b} of the latter. {pays} "
    "What is the change?",
)
def shopping(rng: Random) -> Program:
    """Compute change."""
    first, second = rng.sample(ITEMS, 2)
    who, a, b, p, q = rng.choice(NAMES), rng.randint(2, 9), rng.randint(2, 9), rng.randint(2, 15), rng.randint(2, 15)
    less = rng.choice((0, 0, rng.randint(1, 3)))
    off = f", {less} less for each {second[:-1]} after the first" if less else ""
    cost = f"{a} * {p} + {b} * {q}" + (f" - {less} * ({b} - 1)" if less else "")
    note = rng.choice((50, 100, 200, 500))
    note = 500 if a * p + b * q > note else note
    words = {"who": who, "a": a, "b": b, "p": p, "q": q, "first": first, "second": second, "off": off}
    return Program(f"print({note} - ({cost}))\n", words | {"pays": f"{who} pays with {note}."}, needs_code=False)


@value(
    Area.NUMERIC,
    2,
    "{n} {things} are packed into boxes of {k}. Each full box is sold for {p}, the {things} left over for {q} each. "
    "What do they bring in total?",
    "A worker packs {n} {things}, {k} to a box. A full box sells at {p}; what does not fill a box is sold singly at "
    "{q}. How much money is made?",
    "From {n} {things} one makes as many boxes of {k} as possible. Boxes sell for {p}, single {things} for {q}. What "
    "is earned if all are sold?",
)
def packing(rng: Random) -> Program:
    """Divide with a remainder."""
    n, k, p, q = rng.randint(40, 400), rng.randint(6, 24), rng.randint(20, 90), rng.randint(1, 6)
    code = f"boxes, left = divmod({n}, {k})\nprint(boxes * {p} + left * {q})\n"
    return Program(code, {"n": n, "k": k, "p": p, "q": q, "things": rng.choice(ITEMS)}, needs_code=False)


@value(
    Area.NUMERIC,
    2,
    "{who} has {n} coins. Every day {who} spends {k} of them and gets {g} back; every {w}. day {who} also finds {f}. "
    "How many coins does {who} have after {d} days?",
    "Someone starts with {n} points, loses {k} a day and gains {g} a day, and on each {w}. day gains {f} more. How "
    "many points are there after {d} days?",
    "A tank holds {n} litres. Each day {k} litres are taken out and {g} poured in; on every {w}. day {f} more come "
    "in. How many litres are in it after {d} days?",
)
def daily_change(rng: Random) -> Program:
    """Follow a quantity over days."""
    k, g, w, f, d = rng.randint(3, 9), rng.randint(1, 8), rng.randint(2, 7), rng.randint(1, 9), rng.randint(8, 40)
    n = rng.randint(200, 600)
    words = {"who": rng.choice(NAMES), "n": n, "k": k, "g": g, "w": w, "f": f, "d": d}
    return Program(f"print({n} + {d} * ({g} - {k}) + {d} // {w} * {f})\n", words, needs_code=False)
