"""Predict families of levels 4 and 5: generators, classes, exceptions, recursion, bits, stack machines."""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import Area, Program, block, predict
from agentgym.tasks.code.material import WORDS, ints
from agentgym.tasks.code.parts import int_test

_ASKS = ("What does this program print?", "Give the output of this program.", "What is printed by the following code?")


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
