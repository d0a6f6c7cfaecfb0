"""Function families that simulate a process: robots, accounts, cells, tanks."""

from __future__ import annotations

from random import Random

from agentgym.base.choices import count_of
from agentgym.tasks.code.families import Area, Function, block, function
from agentgym.tasks.code.material import letters, nth


@function(
    Area.SIMULATION,
    3,
    "A robot stands at (0, 0) and faces {look}. `{go}` moves it {step} forward, `{left}` turns it left by 90 "
    "degrees, and `{right}` turns it right; other characters are ignored. {wall} North is (0, 1), east is "
    "(1, 0). Return {result}.",
    "Follow the characters of s: `{left}` and `{right}` turn the robot left and right by 90 degrees, `{go}` "
    "moves it {step} ahead, and anything else does nothing. It starts at (0, 0), facing {look}; north adds "
    "to y, east adds to x. {wall} Return {result}.",
    "Simulate a robot that starts at (0, 0), facing {look} (x grows to the east, y to the north). The "
    "commands are `{go}` for {step} forward, `{left}` for a quarter turn left, and `{right}` for a quarter "
    "turn right; ignore all others. {wall} Return {result}.",
)
def robot_walk(rng: Random) -> Function:
    """Move a robot."""
    go, left, right = rng.sample("FLRGTKXW", 3)
    step, size, view = rng.randint(1, 3), rng.randint(3, 7), rng.randrange(4)
    wall, fix = rng.choice(
        (
            ("There are no walls.", "{v}"),
            (
                f"A coordinate that would pass {size} or -{size} stays at that bound.",
                f"max(-{size}, min({size}, {{v}}))",
            ),
            (f"Both coordinates are kept modulo {size} (0 to {size - 1}).", f"({{v}}) % {size}"),
        )
    )
    result, code = rng.choice(
        (
            ("its final position (x, y)", "(x, y)"),
            ("how far it ends from the start, as |x| + |y|", "abs(x) + abs(y)"),
            ("how many different positions it has been at (the start counts)", "len(seen)"),
            ("the largest x it has reached (at least 0)", "max(p[0] for p in seen)"),
        )
    )
    source = block(f"""
        def walk(s: str) -> {"tuple[int, int]" if code == "(x, y)" else "int"}:
            moves = [(0, 1), (1, 0), (0, -1), (-1, 0)]
            x, y, view = 0, 0, {view}
            seen = {{(0, 0)}}
            for sign in s:
                if sign == {left!r}:
                    view = (view - 1) % 4
                elif sign == {right!r}:
                    view = (view + 1) % 4
                elif sign == {go!r}:
                    dx, dy = moves[view]
                    x = {fix.replace("{v}", f"x + dx * {step}")}
                    y = {fix.replace("{v}", f"y + dy * {step}")}
                    seen.add((x, y))
            return {code}
    """)
    words = {"go": go, "left": left, "right": right, "wall": wall, "result": result}
    words |= {"look": ("north", "east", "south", "west")[view], "step": f"{step} step{'s' * (step > 1)}"}
    edges = (
        ("",),
        (go * 9,),
        ((go + left) * 4,),
        ((go + right) * 3,),
        (left + go * 2 + "?" + right + go,),
        (right * 2 + go * 4,),
    )
    return Function(source, words, lambda r: (letters(r, go * 4 + left + right + "?", 5, 18),), edges)


@function(
    Area.SIMULATION,
    3,
    "An account starts with the given balance. Each change is added to it; a negative change is a payment "
    "and costs an extra fee of {fee}. A payment that would bring the balance (with the fee) below {floor} is "
    "refused and changes nothing{fine}. {bonus} Return {result}.",
    "Go through the changes of an account, beginning with the given balance. Positive ones are paid in; "
    "negative ones are paid out, together with a fee of {fee}. If a payment and its fee would leave less "
    "than {floor}, it is refused{fine}. {bonus} Return {result}.",
    "Start from the given balance and apply the changes in order. Paying out (a negative change) costs {fee} "
    "more; it is refused, without effect, if the balance would end up below {floor}{fine}. {bonus} Return "
    "{result}.",
)
def account(rng: Random) -> Function:
    """Keep an account with fees and refusals."""
    fee, floor, k, extra, fined = (
        rng.randint(1, 4),
        rng.choice((0, -10, -20, 5)),
        rng.randint(2, 4),
        rng.randint(2, 9),
        rng.randint(1, 3),
    )
    fine, charge = rng.choice((("", 0), (f", but then a fine of {fined} is charged", fined)))
    bonus, rule = rng.choice(
        (
            ("There are no other rules.", ""),
            (f"Every {nth(k)} change that is paid in (a change of 0 counts) earns a bonus of {extra}.", "paid"),
            (f"Paying in {10 * k} or more at once earns a bonus of {extra}.", "large"),
        )
    )
    result, code = rng.choice(
        (
            ("the final balance", "balance"),
            ("the lowest balance at any time (counting the initial one)", "lowest"),
            ("the final balance and the number of refused payments, as a pair", "(balance, refused)"),
        )
    )
    gain = {
        "": "",
        "paid": f" + ({extra} if paid % {k} == 0 else 0)",
        "large": f" + ({extra} if change >= {10 * k} else 0)",
    }
    source = block(f"""
        def play(balance: int, changes: list[int]) -> {"tuple[int, int]" if code.startswith("(") else "int"}:
            lowest, refused, paid = balance, 0, 0
            for change in changes:
                if change >= 0:
                    paid += 1
                    balance += change{gain[rule]}
                elif balance + change - {fee} < {floor}:
                    refused += 1
                    {f"balance -= {charge}" if charge else ""}
                else:
                    balance += change - {fee}
                lowest = min(lowest, balance)
            return {code}
    """)
    edges = (
        (0, []),
        (10, [0, 0, 0]),
        (5, [-5]),
        (fee + floor + 7, [-7]),
        (0, [40, -30, 25, -60, 9]),
        (-3, [-1, 2, 3, 50]),
    )
    words = {"fee": fee, "floor": floor, "fine": fine, "bonus": bonus, "result": result}
    return Function(
        source, words, lambda r: (r.randint(0, 40), [r.randint(-40, 35) for _ in range(r.randint(3, 9))]), edges
    )


@function(
    Area.SIMULATION,
    4,
    "A row of cells is given as text, with `{on}` for a live cell and `.` for a dead one. Simulate "
    "{rounds}. In each round all cells change at once: a live cell stays alive if {stay} of its two neighbours "
    "are alive, and a dead cell comes to life if {born} are. {edge} Return the row.",
    "Simulate {generations} of a row of cells (`{on}` is alive, `.` is dead). The neighbours of a cell are "
    "directly left and right of it. A dead cell is born when {born} of its neighbours are alive, a live one "
    "survives when {stay} are, and all change together. {edge} Return the last row.",
    "Cells in a row are alive (`{on}`) or dead (`.`). Do this {times}, for all cells at once: living cells "
    "survive if the number of their two neighbours that are alive is {stay}, and dead cells come alive if it "
    "is {born}. {edge} Return the final row as text.",
)
def cell_row(rng: Random) -> Function:
    """Run a cellular automaton."""
    on, t = rng.choice("#XO*"), rng.randint(1, 4)
    counts = [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2)]
    stay, born = rng.choice(counts), rng.choice([(1,), (2,), (1, 2), (0, 2)])
    edge, row = rng.choice(
        (
            ("Cells beyond both ends count as dead.", '"." + row + "."'),
            ("The row is a circle: the first and the last cell are neighbours.", "row[-1:] + row + row[:1]"),
            ("Cells beyond both ends count as alive.", f'"{on}" + row + "{on}"'),
        )
    )
    source = block(f"""
        def rounds(row: str) -> str:
            for _ in range({t}):
                wide = {row}
                out = ""
                for i in range(1, len(wide) - 1):
                    living = (wide[i - 1] == "{on}") + (wide[i + 1] == "{on}")
                    if wide[i] == "{on}":
                        out += "{on}" if living in {stay!r} else "."
                    else:
                        out += "{on}" if living in {born!r} else "."
                row = out
            return row
    """)

    def say(options: tuple[int, ...]) -> str:
        return " or ".join(map(str, options))

    edges = ((".",), (on,), (on * 7,), ("." * 7,), (on + "....." + on,), ("..." + on + "...",))
    words = {"on": on, "rounds": count_of(t, "round"), "generations": count_of(t, "generation")}
    words |= {
        "times": "once" if t == 1 else "twice" if t == 2 else f"{t} times",
        "stay": say(stay),
        "born": say(born),
        "edge": edge,
    }
    return Function(source, words, lambda r: (letters(r, "." + on, 5, 12),), edges)


@function(
    Area.SIMULATION,
    2,
    "A tank holds at most {cap} and starts with {start} in it. Each number of the list is poured in (or taken out, "
    "if negative); what does not fit overflows, and no more can be taken than there is. {leak} Return "
    "{result}.",
    "Fill and empty a tank (capacity {cap}, initially {start}) by the numbers of the list, in order. The "
    "content never exceeds the capacity (the rest overflows) and never falls below 0. {leak} Return "
    "{result}.",
    "The list holds changes to the content of a tank that starts at {start}. After each change, limit the "
    "content to the range 0 to {cap}; anything above {cap} has overflowed. {leak} Return {result}.",
)
def tank(rng: Random) -> Function:
    """Fill a tank that overflows."""
    cap, loss = rng.randint(15, 60), rng.randint(1, 4)
    start = rng.randint(0, cap)
    leak, code = rng.choice(
        (
            ("It does not leak.", ""),
            (f"After each change {loss} leaks out (or what there is, if less).", f"level = max(0, level - {loss})"),
        )
    )
    result, final = rng.choice(
        (
            ("the final content", "level"),
            ("how much overflowed in total", "lost"),
            ("the final content plus twice what overflowed in total", "level + 2 * lost"),
            ("the list of contents after each change", "levels"),
            (
                f"10 times how often it was full ({cap}) right after a change (before a leak), plus the final content",
                "10 * full + level",
            ),
        )
    )
    source = block(f"""
        def fill(changes: list[int]) -> {"list[int]" if final == "levels" else "int"}:
            level, lost, full = {start}, 0, 0
            levels = []
            for change in changes:
                level = max(0, level + change)
                if level >= {cap}:
                    full += 1
                lost += max(0, level - {cap})
                level = min(level, {cap})
                {code}
                levels.append(level)
            return {final}
    """)
    edges = (([],), ([0, 0],), ([cap - start],), ([200, -200, 3],), ([-1, -2, 5, 40],), ([cap, cap, -5, 5],))
    words = {"cap": cap, "start": start, "leak": leak, "result": result}
    return Function(source, words, lambda r: ([r.randint(-25, 40) for _ in range(r.randint(3, 9))],), edges)
