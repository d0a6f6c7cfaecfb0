"""Predict families: programs that each show one feature of Python.

Those of levels 4 and 5 use generators, classes, exceptions, recursion, bits and stack machines.
"""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import Area, Program, block, predict
from agentgym.tasks.code.material import WORDS, ints, letters, words
from agentgym.tasks.code.parts import int_map, int_test

_ASKS = ("What does this program print?", "Give the output of this program.", "What is printed by the following code?")


@predict(Area.STRINGS, 1, *_ASKS)
def shows_slice(rng: Random) -> Program:
    """Slice a text."""
    text, a, b, step = letters(rng, "abcdefgh", 7, 12), rng.randint(0, 2), rng.randint(5, 9), rng.choice((1, 2, 3))
    part = rng.choice((f"[{a}:{b}:{step}]", f"[:-{a + 1}:{step}]", f"[{b}:{a}:-{step}]", "[::-1]", f"[-{b}:][{a}:]"))
    return Program(f'text = "{text}"\nprint(repr(text{part}))\n')


@predict(Area.NUMERIC, 1, *_ASKS)
def shows_operators(rng: Random) -> Program:
    """Apply a few operators."""
    a, b, c = rng.randint(20, 99), rng.randint(3, 9), rng.randint(2, 9)
    last = rng.choice(
        (f"x = x % {b} + {c}", f"x = -x // {b}", f"x ^= {c}", f"x = x * {c} - x // {b}", f"x = (x << 1) + {c}")
    )
    return Program(f"x = {a} // {b} + {c}\nx += {a} % {b}\n{last}\nprint(x)\n")


@predict(Area.LISTS, 2, *_ASKS)
def shows_loop(rng: Random) -> Program:
    """Loop with `continue` and `break`."""
    skip, stop, a, limit = int_test(rng), int_test(rng), rng.randint(2, 5), rng.randint(40, 120)
    code = block(f"""
        total = {a}
        for i, x in enumerate({ints(rng, 6, 10, -4, 25)}):
            if {skip.of("x")}:
                total += i
                continue
            if {stop.of("x")} and i > 4 or total > {limit}:
                break
            total += {a} * x
        else:
            total = -total
        print(total)
    """)
    return Program(code)


@predict(Area.STRINGS, 2, *_ASKS)
def shows_text_methods(rng: Random) -> Program:
    """Chain methods of a text."""
    text, a, b, k = " ".join(words(rng, 3, 5)), rng.choice("aeio"), rng.choice("xyz"), rng.randint(2, 3)
    steps = (
        f'.replace("{a}", "{b}", {k})',
        ".title()",
        f'.partition("{a}")[2]',
        f'.rpartition("{a}")[0]',
        ".swapcase()",
        f'.strip("{a}r")',
        f'.lstrip("{text[0]}{text[1]}")',
        f".zfill({len(text) + k})",
        f'.center({len(text) + 2 * k + 1}, "{b}")',
    )
    return Program(f"text = {text!r}\ntext = text{''.join(rng.sample(steps, 3))}\nprint(repr(text))\n")


@predict(Area.LISTS, 3, *_ASKS)
def shows_dict(rng: Random) -> Program:
    """Update a dict in a loop."""
    texts, k = words(rng, 5, 8), rng.randint(2, 4)
    key = rng.choice(("w[0]", "len(w)", "w[-1]", f"w[:{k}][-1]"))
    update = rng.choice(
        (f"d.get(k, {k}) * 2 - len(w)", "d.pop(k, 0) + i", f"max(d.get(k, 0), i * {k})", "d.get(k, '') + w[-1]")
    )
    final = rng.choice(("d", "list(d.items())[::-1]", "sorted(d.items(), key=lambda p: str(p[1]))", "list(d.values())"))
    code = block(f"""
        d = {{}}
        for i, w in enumerate({texts}):
            k = {key}
            d[k] = {update}
        print({final})
    """)
    return Program(code)


@predict(Area.LISTS, 3, *_ASKS)
def shows_aliasing(rng: Random) -> Program:
    """Share a list between names."""
    xs, k, m = ints(rng, 3, 5, 0, 9), rng.randint(1, 3), rng.randint(2, 3)
    make = rng.choice(("a", "a[:]", "list(a)", "a + []", "sorted(a)"))
    grow = rng.choice(
        (f"b += [{k}]", f"b = b + [{k}]", f"b.append({k})", f"b[:] = b[::-1] + [{k}]", f"b[0:1] = [{k}, {m}]")
    )
    code = block(f"""
        def change(xs, extra=[]):
            extra.append(len(xs))
            xs.insert({k - 1}, extra[-1] * {m})
            return extra


        a = {xs}
        b = {make}
        {grow}
        rows = [b] * {m}
        rows[0].append(sum(a))
        change(a)
        print(a, b, change(b), len(rows[-1]), sep=", ")
    """)
    return Program(code)


@predict(Area.NUMERIC, 3, *_ASKS)
def shows_closures(rng: Random) -> Program:
    """Call closures that keep variables."""
    n, k, change = rng.randint(3, 5), rng.randint(2, 9), int_map(rng)
    late = rng.choice(("lambda x: x * i", "lambda x, i=i: x * i", "lambda x, i=i + 1: x - i"))
    code = block(f"""
        def counter(start):
            def step(by={k}):
                nonlocal start
                start = start + by
                return {change.of("start")}

            return step


        tools = [{late} for i in range({n})]
        first, second = counter({k + n}), counter({n})
        print([first(), second({k}), first({n}), *(tool({k}) for tool in tools), second()])
    """)
    return Program(code)


@predict(Area.LISTS, 2, *_ASKS, held_out=True)
def shows_zip(rng: Random) -> Program:
    """Combine lists with `zip` and `enumerate`."""
    xs, ys, k = ints(rng, 4, 7), ints(rng, 4, 7), rng.randint(1, 3)
    op = rng.choice(("x * i - y", "max(x, y) - i", f"x - y * {k}", "(x - y) % (i + 2)"))
    return Program(f"xs, ys = {xs}, {ys}\nprint([{op} for i, (x, y) in enumerate(zip(xs[{k}:], ys), {k})])\n")


@predict(Area.ALGORITHMS, 4, *_ASKS)
def shows_generators(rng: Random) -> Program:
    """Pull values out of generators."""
    test, a, b, n = int_test(rng), rng.randint(1, 7), rng.randint(2, 5), rng.randint(3, 6)
    code = block(f"""
        from itertools import islice, takewhile


        def source(x):
            while True:
                got = yield x
                x = x + {b} if got is None else got


        numbers = source({a})
        head = [next(numbers) for _ in range({n})]
        head.append(numbers.send({a * b}))
        some = [x for x in islice(numbers, {n + 4}) if {test.of("x")}]
        rest = list(takewhile(lambda x: x < {20 * b}, numbers))
        print(head, some, len(rest), next(numbers), sep=", ")
    """)
    return Program(code)


@predict(Area.SIMULATION, 4, *_ASKS)
def shows_classes(rng: Random) -> Program:
    """Override methods and share class attributes."""
    a, b, k = rng.randint(1, 9), rng.randint(2, 6), rng.randint(2, 5)
    own = rng.choice(("self.log = []", "self.log = self.log + [level]", "self.level = level"))
    code = block(f"""
        class Base:
            log = []

            def __init__(self, level):
                self.level = level
                {own}

            def score(self, x):
                self.log.append(x)
                return self.level * x + {a}

            def total(self, xs):
                return sum(self.score(x) for x in xs)


        class Special(Base):
            def score(self, x):
                if x % {k} == 0:
                    return super().score(x) - {b}
                self.level += 1
                return x


        things = [Base({b}), Special({a}), Special({k})]
        totals = [thing.total({ints(rng, 3, 5, 0, 12)}) for thing in things]
        print(totals, [thing.level for thing in things], things[0].log, sep=", ")
    """)
    return Program(code)


@predict(Area.PARSING, 4, *_ASKS)
def shows_exceptions(rng: Random) -> Program:
    """Trace exceptions through a program."""
    items = [
        rng.choice((str(rng.randint(0, 9)), "x", "", f"{rng.randint(1, 9)}.5", str(rng.randint(10, 60))))
        for _ in range(6)
    ]
    a, b, k = rng.randint(20, 90), rng.randint(1, 5), rng.randint(3, 9)
    code = block(f"""
        def read(text):
            try:
                number = {a} // int(text)
            except ZeroDivisionError:
                return {b}
            except ValueError:
                if not text:
                    raise KeyError(text) from None
                number = len(text)
            else:
                number += {b}
            finally:
                seen.append(text)
            if number > {k}:
                raise IndexError(number)
            return number


        seen, total = [], 0
        for item in {items}:
            try:
                total += read(item)
            except LookupError as error:
                total -= error.args[0] or {k} if isinstance(error, IndexError) else {k}
        print(total, len(seen))
    """).replace("print(total, len(seen))", "print([total, len(seen)])")
    return Program(code)


@predict(Area.NUMERIC, 4, *_ASKS)
def shows_recursion(rng: Random) -> Program:
    """Trace a recursion."""
    a, b, c, n = rng.randint(2, 4), rng.randint(1, 3), rng.randint(1, 9), rng.randint(11, 24)
    code = block(f"""
        def f(n, depth=0):
            if n <= {b}:
                return n + depth
            if n % {a} == 0:
                return f(n // {a}, depth + 1) + {c}
            return f(n - 1, depth + 1) - f(n - {a + 1}, depth)


        print([f({n}), f({n + 1}), f({n + 5})])
    """)
    return Program(code)


@predict(Area.ALGORITHMS, 5, *_ASKS)
def shows_bits(rng: Random) -> Program:
    """Mix bits in a loop."""
    a, b, c, n = rng.randint(3, 15), rng.randint(1, 5), rng.randint(3, 250), rng.randint(4, 12)
    code = block(f"""
        state = {c}
        seen = []
        for i in range({n}):
            state ^= (state << {b}) & 0xFF
            state ^= state >> {b % 3 + 1}
            state = (state + {a} * i) & 0xFF
            seen.append(state.bit_count() if i % 2 else state)
        print(state, seen[-3:], sep=", ")
    """)
    return Program(code)


@predict(Area.SIMULATION, 5, *_ASKS)
def shows_machine(rng: Random) -> Program:
    """Run a small stack machine."""
    a, b, n = rng.randint(2, 9), rng.randint(1, 6), rng.randint(9, 25)
    steps = [
        ("add", a),
        ("dup", 0),
        ("mul", b),
        ("swap", 0),
        ("sub", b),
        ("over", 0),
        ("add", b),
        ("drop", 0),
        ("mul", 2),
    ]
    program = rng.sample(steps, rng.randint(5, 7))
    code = block(f"""
        program = {program}
        stack, place, ticks = [{a}, {b}, 1], 0, 0
        while ticks < {n}:
            name, value = program[place]
            ticks += 1
            if name == "add":
                stack.append((stack.pop() + value) % 101)
            elif name == "sub":
                stack.append(stack.pop(0) - value)
            elif name == "mul":
                stack.append(stack.pop() * value % 101)
            elif name == "dup":
                stack.append(stack[-1])
            elif name == "over":
                stack.append(stack[0])
            elif name == "swap":
                stack[0], stack[-1] = stack[-1], stack[0]
            elif len(stack) > 3:
                stack.pop()
            place = (place + (2 if stack[-1] % 3 == 0 else 1)) % len(program)
        print(stack)
    """)
    return Program(code)


@predict(Area.LISTS, 5, *_ASKS)
def shows_comprehensions(rng: Random) -> Program:
    """Nest comprehensions and unpack."""
    test, k, n, texts = (
        int_test(rng),
        rng.randint(2, 4),
        rng.randint(4, 6),
        rng.sample([w for w in WORDS if w.isascii()], 4),
    )
    code = block(f"""
        words = {texts}
        grid = [[(r * {k} + c * c) % 11 - 2 for c in range({n})] for r in range({n})]
        first, *middle, last = [sum(x for x in row if {test.of("x")}) for row in zip(*grid)]
        table = {{w[:{k}]: [row[i] for row in grid[i:]] for i, w in enumerate(words)}}
        pairs = sorted((max(v), k) for k, v in table.items())
        print(first, middle[::-1], last, pairs[-{k - 1}:], sep=", ")
    """)
    return Program(code)


@predict(Area.STRINGS, 5, *_ASKS, held_out=True)
def shows_formats(rng: Random) -> Program:
    """Format values."""
    a, b, word, width = rng.randint(10, 5000), rng.randint(2, 99), rng.choice(WORDS), rng.randint(6, 9)
    specs = (
        f"{{a:>{width}}}",
        "{a:08b}",
        f"{{word:*^{width + 3}}}",
        "{a:+,}",
        "{b:x}",
        "{word!r:>10}",
        "{a / b:.2f}",
        f"{{b:0<{width}}}",
        "{a:#o}",
    )
    text = "|".join(rng.sample(specs, 4))
    return Program(f'a, b, word = {a}, {b}, {word!r}\ntext = f"{text}"\nprint(repr(text))\n')
