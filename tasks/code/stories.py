"""Value families of level 2 that are short stories; a good reader can solve them without code."""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import Area, Program, value
from agentgym.tasks.code.material import ITEMS, NAMES, nth


@value(
    Area.NUMERIC,
    2,
    "{who} buys {a} {first} at {p} each and {b} {second} at {q} each{off}. {pays} How much change is given?",
    "In a shop, {first} cost {p} each and {second} {q} each{off}. {who} takes {a} {first} and {b} {second}. {pays} "
    "How much money comes back?",
    "{who} wants {a} {first} at {p} apiece and {b} {second} at {q} apiece{off}. {pays} How much change is due?",
)
def shopping(rng: Random) -> Program:
    """Compute change."""
    first, second = rng.sample(ITEMS, 2)
    who, a, b, p, q = rng.choice(NAMES), rng.randint(2, 9), rng.randint(2, 9), rng.randint(2, 15), rng.randint(2, 15)
    less = rng.choice((0, 0, rng.randint(1, 3)))
    off = f", with {less} off the price of every {second[:-1]} after the first" if less else ""
    cost = f"{a} * {p} + {b} * {q}" + (f" - {less} * ({b} - 1)" if less else "")
    note = rng.choice((50, 100, 200, 500))
    note = 500 if a * p + b * q > note else note
    words = {"who": who, "a": a, "b": b, "p": p, "q": q, "first": first, "second": second, "off": off}
    return Program(f"print({note} - ({cost}))\n", words | {"pays": f"{who} pays with {note}."}, needs_code=False)


@value(
    Area.NUMERIC,
    2,
    "{n} {things} are packed into boxes of {k}. Each full box is sold for {p}, and the {things} left over "
    "for {q} each. How much money does all of it bring in?",
    "A worker packs {n} {things}, {k} to a box. A full box sells for {p}; {things} that do not fill a box "
    "are sold singly for {q} each. How much money is made?",
    "{n} {things} are put into as many full boxes of {k} as possible. Boxes sell for {p} each, loose "
    "{things} for {q} each. How much is earned if everything is sold?",
)
def packing(rng: Random) -> Program:
    """Divide with a remainder."""
    n, k, p, q = rng.randint(40, 400), rng.randint(6, 24), rng.randint(20, 90), rng.randint(1, 6)
    code = f"boxes, left = divmod({n}, {k})\nprint(boxes * {p} + left * {q})\n"
    return Program(code, {"n": n, "k": k, "p": p, "q": q, "things": rng.choice(ITEMS)}, needs_code=False)


@value(
    Area.NUMERIC,
    2,
    "{who} has {n} coins. Every day {who} spends {k} of them and gets {g} back; every {wth} day {who} also "
    "finds {f}. How many coins does {who} have after {d} days?",
    "You start with {n} points, lose {k} a day and gain {g} a day, and on every {wth} day you gain {f} more. "
    "How many points do you have after {d} days?",
    "A tank holds {n} litres. Each day {k} litres are taken out and {g} are poured in; on every {wth} day, "
    "{f} more go in. How many litres does it hold after {d} days?",
)
def daily_change(rng: Random) -> Program:
    """Follow a quantity over days."""
    k, g, w, f, d = rng.randint(3, 9), rng.randint(1, 8), rng.randint(2, 7), rng.randint(1, 9), rng.randint(8, 40)
    n = rng.randint(200, 600)
    words = {"who": rng.choice(NAMES), "n": n, "k": k, "g": g, "wth": nth(w), "f": f, "d": d}
    return Program(f"print({n} + {d} * ({g} - {k}) + {d} // {w} * {f})\n", words, needs_code=False)
