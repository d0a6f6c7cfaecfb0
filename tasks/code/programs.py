"""Predict families of levels 1 to 3: programs that each show one feature of Python."""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import Area, Program, block, predict
from agentgym.tasks.code.material import ints, letters, words
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
