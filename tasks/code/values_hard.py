"""Value families of level 4: counts and sequences that are long by hand and short in code."""

from __future__ import annotations

from random import Random

from agentgym.base.choices import count_of
from agentgym.tasks.code.families import Area, Program, block, value
from agentgym.tasks.code.material import WORDS, ints, listed
from agentgym.tasks.code.parts import int_test


@value(
    Area.NUMERIC,
    4,
    "Let x(0) = {s} and x(i+1) = ({a} * x(i) + {c}) modulo {m}. Of x(1), ..., x({n}), {ask}",
    "A generator starts at {s}; each next number is {a} times the previous one plus {c}, modulo {m}. For the "
    "first {n} numbers after the start, {ask}",
    "Make {n} numbers: begin with x = {s} (which does not count) and repeatedly replace x by ({a} * x + {c}) "
    "% {m}. For these numbers, {ask}",
)
def generator_stats(rng: Random) -> Program:
    """Summarise a pseudo-random sequence."""
    m, n = rng.choice((101, 257, 499, 997, 1009)), rng.randint(30, 200)
    a, c, s, test = rng.randint(3, 90), rng.randint(1, 90), rng.randint(1, 90), int_test(rng)
    ask, code = rng.choice(
        (
            (f"what is the sum of those that {test}?", f"sum(x for x in xs if {test.of('x')})"),
            (
                "how many are greater than the one directly before (also compare the first with the start)?",
                f"sum(q > p for p, q in zip([{s}, *xs], xs))",
            ),
            ("what is the sum of the distinct values?", "sum(set(xs))"),
            ("what is the sum of the 10 largest (repeats count)?", "sum(sorted(xs)[-10:])"),
        )
    )
    code = block(f"""
        x, xs = {s}, []
        for _ in range({n}):
            x = ({a} * x + {c}) % {m}
            xs.append(x)
        print({code})
    """)
    return Program(code, {"s": s, "a": a, "c": c, "m": m, "n": n, "ask": ask})


@value(
    Area.NUMERIC,
    4,
    "How many integers from {a} to {b} (both included) {first} and also {second}?",
    "Count the integers n with {a} <= n <= {b} that {first} and that {second}.",
    "Of the whole numbers from {a} to {b}, inclusive, how many {first} and at the same time {second}?",
)
def count_digits(rng: Random) -> Program:
    """Count numbers by two properties."""
    a, k, d = rng.randint(100, 9000), rng.randint(3, 11), rng.randint(0, 9)
    b = a + rng.randint(300, 1500)
    tests = (
        (f"contain the digit {d} at least once", f"'{d}' in str(n)"),
        ("have no two equal digits", "len(set(str(n))) == len(str(n))"),
        (f"are multiples of {k}", f"n % {k} == 0"),
        ("have a digit sum that is a prime below 30", "sum(map(int, str(n))) in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)"),
        ("have digits that never decrease from left to right", "str(n) == ''.join(sorted(str(n)))"),
        (f"have more than {count_of(k % 3 + 1, 'odd digit')}", f"sum(c in '13579' for c in str(n)) > {k % 3 + 1}"),
        ("have a last digit that is larger than the first one", "str(n)[-1] > str(n)[0]"),
    )
    (first, first_code), (second, second_code) = rng.sample(tests, 2)
    code = f"print(sum(1 for n in range({a}, {b + 1}) if {first_code} and {second_code}))\n"
    return Program(code, {"a": a, "b": b, "first": first, "second": second})


@value(
    Area.LISTS,
    4,
    "How many pairs of positions i < j are there in {xs} for which {cond}? Here x is the number at i and y "
    "the one at j.",
    "In {xs}, count the pairs (x, y) with x standing before y such that {cond}.",
    "Take any two numbers in {xs}, x the earlier and y the later. For how many such pairs is it true that {cond}?",
)
def count_pairs(rng: Random) -> Program:
    """Count pairs."""
    xs, k, r = ints(rng, 10, 22, 1, 60), rng.randint(3, 9), rng.randint(0, 2)
    text, code = rng.choice(
        (
            (
                f"x + y leaves a remainder of {r} when divided by {k}" if r else f"x + y is divisible by {k}",
                f"(x + y) % {k} == {r}",
            ),
            ("x is greater than y", "x > y"),
            (f"x and y differ by at most {k}", f"abs(x - y) <= {k}"),
            (f"x * y is a multiple of {k}", f"x * y % {k} == 0"),
            (f"x is more than {k} smaller than y", f"y - x > {k}"),
        )
    )
    code = f"xs = {xs}\nprint(sum(1 for j, y in enumerate(xs) for x in xs[:j] if {code}))\n"
    return Program(code, {"xs": xs, "cond": text})


@value(
    Area.ALGORITHMS,
    4,
    "In how many ways can {n} be written as a sum of the numbers {parts}, each used {how}, if the order does not "
    "matter?",
    "Count the ways to pay {n} with coins of {parts}, each kind {how}; the order does not matter.",
    "How many multisets of the numbers {parts} (each {how}) add up to {n}?",
)
def count_ways(rng: Random) -> Program:
    """Count sums."""
    parts, n = sorted(rng.sample(range(2, 17), rng.randint(3, 5))), rng.randint(30, 90)
    most = rng.choice((0, rng.randint(3, 6)))
    limit = f"min({most}, n // part)" if most else "n // part"
    code = block(f"""
        ways = [1] + [0] * {n}
        for part in {parts}:
            ways = [sum(ways[n - k * part] for k in range({limit} + 1)) for n in range({n + 1})]
        print(ways[{n}])
    """)
    how = f"at most {most} times" if most else "as often as you like"
    return Program(code, {"n": n, "parts": listed(parts), "how": how})


@value(
    Area.STRINGS,
    4,
    "Start with the text {start}. Rewrite it {t} times, replacing all characters at once by these rules: "
    "{rules}. {ask}",
    "A text grows: it begins as {start}, and {t} times in a row every character is rewritten ({rules}). {ask}",
    "Take the text {start}. In each of {t} rounds, every character is replaced at the same time: {rules}. {ask}",
    held_out=True,
)
def rewriting(rng: Random) -> Program:
    """Grow a text by rewriting."""
    rules = {c: "".join(rng.choice("ABC") for _ in range(rng.randint(1, 3))) for c in "ABC"}
    t, start, c = rng.randint(3, 6), "".join(rng.choice("ABC") for _ in range(2)), rng.choice("ABC")
    ask, code = rng.choice(
        (
            ("How long is the text then?", "len(s)"),
            (f"How many times does it contain {c} then?", f"s.count('{c}')"),
            (f"How many times does the final text contain {c} directly before A?", f"s.count('{c}A')"),
        )
    )
    if code.endswith("AA')"):
        ask, code = "How long is the text then?", "len(s)"
    code = f"s = '{start}'\nfor _ in range({t}):\n    s = ''.join({rules}[c] for c in s)\nprint({code})\n"
    wording = ", ".join(f"{old} becomes {new}" for old, new in rules.items())
    return Program(code, {"start": start, "t": t, "rules": wording, "ask": ask})


@value(
    Area.STRINGS,
    4,
    "What is the smallest number of single-character insertions, deletions and replacements that turn {a} "
    "into {b}{rule}?",
    "Compute the edit distance (insert, delete or replace one character) between {a} and {b}{rule}.",
    "An edit inserts, deletes or replaces one character. What is the least number of edits that change {a} "
    "into {b}{rule}?",
    held_out=True,
)
def edit_distance(rng: Random) -> Program:
    """Compute an edit distance with a cost."""
    a, b = ("".join(rng.sample(WORDS, 2)) for _ in range(2))
    k = rng.choice((1, 2, 3))
    rule = "" if k == 1 else f", if a replacement counts as {k} edits"
    code = block(f"""
        a, b = {a!r}, {b!r}
        row = list(range(len(b) + 1))
        for x in a:
            new = [row[0] + 1]
            for j, y in enumerate(b):
                new.append(min(row[j + 1] + 1, new[j] + 1, row[j] + {k} * (x != y)))
            row = new
        print(row[-1])
    """)
    return Program(code, {"a": repr(a), "b": repr(b), "rule": rule})
