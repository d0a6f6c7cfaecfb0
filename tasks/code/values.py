"""Value families: dates, bases, words, small tables and walks.

Those of level 4 ask for counts and sequences that are long by hand and short in code.
"""

from __future__ import annotations

from random import Random

from agentgym.base.choices import count_of
from agentgym.tasks.code.families import Area, Program, block, value
from agentgym.tasks.code.material import ITEMS, WORDS, day, ints, letters, listed, nth, sentence
from agentgym.tasks.code.parts import int_map, int_test, word_test


@value(
    Area.DATES,
    2,
    "How many days is it from {a} to {b}{how}?",
    "Count the days from {a} to {b}{how}.",
    "What is the number of days from {a} to {b}{how}?",
)
def days_apart(rng: Random) -> Program:
    """Count days between two dates."""
    a, b = sorted((day(rng), day(rng)))
    extra = rng.randint(0, 1)
    how = ", counting both of these days" if extra else ", counting only one of these two days"
    code = f"from datetime import date\n\nprint((date{_ymd(b)} - date{_ymd(a)}).days{' + 1' if extra else ''})\n"
    return Program(code, {"a": a.isoformat(), "b": b.isoformat(), "how": how})


@value(
    Area.NUMERIC,
    2,
    "Write {n} in base {b}. What is the sum of its digits there, each counted as a number{rule}?",
    "What is the sum of the base-{b} digits of {n}{rule}?",
    "Convert {n} (decimal) to base {b} and add up the digits{rule}.",
)
def base_digits(rng: Random) -> Program:
    """Add the digits in another base."""
    n, b, k = rng.randint(10**4, 10**9), rng.randint(3, 19), rng.randint(2, 5)
    rule, test = rng.choice(
        (
            ("", ""),
            (f", leaving out digits divisible by {k}", f" if d % {k}"),
            (f", leaving out digits below {k}", f" if d >= {k}"),
        )
    )
    code = block(f"""
        n, digits = {n}, []
        while n:
            n, digit = divmod(n, {b})
            digits.append(digit)
        print(sum(d for d in digits{test}))
    """)
    return Program(code, {"n": n, "b": b, "rule": rule})


@value(
    Area.STRINGS,
    2,
    "How many of these words {test}? {words}",
    "Count the words that {test}: {words}",
    "Look at the words {words}. How many of them {test}?",
)
def count_words(rng: Random) -> Program:
    """Count words of a list."""
    test, words = word_test(rng), [rng.choice(WORDS) for _ in range(rng.randint(12, 40))]
    code = f"words = {' '.join(words)!r}.split()\nprint(sum(1 for w in words if {test.of('w')}))\n"
    return Program(code, {"test": test, "words": " ".join(words)})


@value(
    Area.NUMERIC,
    3,
    "What is the sum of the digits of {a} to the power of {b}{rule}?",
    "Compute {a}**{b} and add up its decimal digits{rule}.",
    "Add all digits of the number {a}^{b}{rule}.",
)
def power_digits(rng: Random) -> Program:
    """Add the digits of a large power."""
    a, b, k = rng.randint(2, 99), rng.randint(15, 150), rng.randint(1, 5)
    rule, test = rng.choice(
        (
            ("", ""),
            (f", but only those above {k}", f" if d > '{k}'"),
            (", but only the even ones", " if int(d) % 2 == 0"),
            (f", leaving out its first {'digit' if k == 1 else f'{k} digits'}", f"[{k}:]"),
        )
    )
    return Program(f"print(sum(int(d) for d in str({a} ** {b}){test}))\n", {"a": a, "b": b, "rule": rule})


@value(
    Area.NUMERIC,
    3,
    "Of the positive integers that {first}, {second} and {third}, which is the {kth} smallest?",
    "Consider the positive integers that {first}, {second}, and {third}. Find the {kth} smallest of them.",
    "List the positive integers that {first}, that {second}, and that {third}, in increasing order. What is "
    "number {k} on the list?",
)
def kth_number(rng: Random) -> Program:
    """Find the k-th number with three properties."""
    m, d, k, r = rng.randint(3, 9), rng.randint(0, 9), rng.randint(5, 60), rng.randint(1, 2)
    code = block(f"""
        found, n = [], 0
        while len(found) < {k}:
            n += 1
            if n % {m} != 0 and "{d}" in str(n) and sum(map(int, str(n))) % 3 == {r}:
                found.append(n)
        print(found[-1])
    """)
    words = {"first": f"are not divisible by {m}", "second": f"contain the digit {d}", "k": k, "kth": nth(k)}
    return Program(code, words | {"third": f"have a digit sum that leaves a remainder of {r} when divided by 3"})


_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@value(
    Area.DATES,
    3,
    "In the years {a} to {b} (both included), in how many months is the {dth} a {weekday}?",
    "How often is the {dth} of a month a {weekday}, from January {a} to December {b}?",
    "Count the months of the years {a} to {b} (inclusive) in which the {dth} falls on a {weekday}.",
)
def weekday_months(rng: Random) -> Program:
    """Count months by the weekday of a date."""
    a, d, weekday = rng.randint(1950, 2060), rng.randint(1, 28), rng.randrange(7)
    b = a + rng.randint(4, 60)
    code = block(f"""
        from datetime import date

        months = [date(year, month, {d}) for year in range({a}, {b + 1}) for month in range(1, 13)]
        print(sum(day.weekday() == {weekday} for day in months))
    """)
    return Program(code, {"a": a, "b": b, "d": d, "dth": nth(d), "weekday": _WEEKDAYS[weekday]})


@value(
    Area.PARSING,
    3,
    "Each line has a name, a number of pieces and a price per piece.\n{table}\nWhat is the total price of the lines "
    "whose number of pieces {test}?",
    "Read this list (name, pieces, price of one piece):\n{table}\nMultiply pieces by price in each line whose "
    "number of pieces {test}, and add up the results.",
    "An order, one line per item: name, pieces, unit price.\n{table}\nWhat do the pieces cost altogether, "
    "counting only lines whose number of pieces {test}?",
)
def order_table(rng: Random) -> Program:
    """Sum a small table."""
    rows = [(rng.choice(ITEMS), rng.randint(1, 30), rng.randint(2, 40)) for _ in range(rng.randint(6, 14))]
    table, test = "\n".join(f"{name},{n},{p}" for name, n, p in rows), int_test(rng)
    code = block(f"""
        rows = [line.split(",") for line in {table!r}.split("\\n")]
        print(sum(int(n) * int(p) for _, n, p in rows if {test.of("int(n)")}))
    """)
    return Program(code, {"table": table, "test": test.one})


@value(
    Area.SIMULATION,
    3,
    "A marker starts at (0, 0). N adds 1 to y, S subtracts 1, E adds 1 to x, W subtracts 1. After the moves "
    "{moves}, what is {ask}?",
    "Start at (0, 0) and follow {moves}, where N and S change y by +1 and -1, and E and W change x by +1 and "
    "-1. What is {ask}?",
    "Walk {moves} on a grid from (0, 0): N is y + 1, S is y - 1, E is x + 1, W is x - 1. What is {ask}?",
)
def walk(rng: Random) -> Program:
    """Follow moves on a grid."""
    moves, a, b = letters(rng, "NNESSEWW", 20, 60), rng.randint(2, 9), rng.randint(2, 9)
    ask, code = rng.choice(
        (
            (f"{a} * x + {b} * y at the end", f"{a} * x + {b} * y"),
            ("the number of different points visited, including the start", "len(seen)"),
            (
                f"the number of moves that end where x + y is a multiple of {a}",
                f"sum((p + q) % {a} == 0 for p, q in path)",
            ),
            ("the sum of |x| + |y| over the points reached by the moves", "sum(abs(p) + abs(q) for p, q in path)"),
        )
    )
    code = block(f"""
        x, y, path = 0, 0, []
        for move in "{moves}":
            dx, dy = {{"N": (0, 1), "S": (0, -1), "E": (1, 0), "W": (-1, 0)}}[move]
            x, y = x + dx, y + dy
            path.append((x, y))
        seen = {{(0, 0), *path}}
        print({code})
    """)
    return Program(code, {"moves": moves, "ask": ask})


@value(
    Area.LISTS,
    3,
    "Replace each x in {xs} with {map}. What is the sum of the {k} smallest results minus the largest?",
    "From {xs}, make a new list with {map} for each x. Subtract its largest number from the sum of its {k} "
    "smallest ones. What is the result?",
    "For every x in {xs} compute {map}. What do you get if you add up the {k} smallest of these values and "
    "subtract the largest?",
    held_out=True,
)
def mapped_extremes(rng: Random) -> Program:
    """Compare the extremes of a mapped list."""
    xs, change, k = ints(rng, 10, 24, -40, 90), int_map(rng), rng.randint(2, 5)
    code = f"values = sorted({change.of('x')} for x in {xs})\nprint(sum(values[:{k}]) - values[-1])\n"
    return Program(code, {"xs": xs, "map": change.say("x"), "k": k})


@value(
    Area.STRINGS,
    2,
    "In the text {text}, replace each letter by its number in the alphabet (a or A is 1, z or Z is 26), "
    "leave out everything but the letters a-z and A-Z, and add up {what}. What is the sum?",
    "Letters are worth their place in the alphabet (A = 1, ..., Z = 26, in either case), and everything else "
    "is worth nothing. For {text}, add up {what}. What is the total?",
    "Read the letters of {text} as numbers, a = 1 to z = 26 regardless of case, and ignore other characters. "
    "What do you get if you add up {what}?",
    held_out=True,
)
def letter_sum(rng: Random) -> Program:
    """Add letters as numbers."""
    text, k = sentence(rng).replace("'", ""), rng.randint(2, 4)
    what, part = rng.choice(
        (
            ("all of them", ""),
            (f"every {nth(k)} of them, beginning with the first", f"[::{k}]"),
            ("the first five", "[:5]"),
        )
    )
    code = f"numbers = [ord(c) - 96 for c in {text!r}.lower() if 'a' <= c <= 'z']\nprint(sum(numbers{part}))\n"
    return Program(code, {"text": repr(text), "what": what})


def _ymd(when: object) -> str:
    year, month, number = str(when).split("-")
    return f"({year}, {int(month)}, {int(number)})"


@value(
    Area.ALGORITHMS,
    3,
    "What is the smallest positive integer that leaves remainders of {rests} when divided by {mods}, respectively?",
    "Find the least n > 0 such that dividing n by {mods} gives the remainders {rests} (in this order).",
    "When arranged in rows of {mods}, a pile of stones leaves {rests} over, respectively. What is the "
    "smallest positive number of stones for which that holds?",
)
def remainders(rng: Random) -> Program:
    """Find a number by its remainders."""
    mods = rng.sample((5, 7, 8, 9, 11, 13), 3)
    rests = [rng.randrange(1, m) for m in mods]
    test = " and ".join(f"n % {m} == {r}" for m, r in zip(mods, rests, strict=True))
    return Program(
        f"n = 1\nwhile not ({test}):\n    n += 1\nprint(n)\n", {"mods": listed(mods), "rests": listed(rests)}
    )


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
