"""Function families that simulate turns: counting out, caches, counters, seasons."""

from __future__ import annotations

from random import Random

from agentgym.base.choices import count_of
from agentgym.tasks.code.families import Area, Arguments, Function, block, function
from agentgym.tasks.code.material import letters, nth


@function(
    Area.SIMULATION,
    4,
    "The people in a list sit in a circle. Counting begins with {first}; every {kth} person leaves, and "
    "counting goes on with the next one{turn}. {stop} Return {result}.",
    "In a circle of people (given as a list), start at {first} and count to {k}, over and over. Whoever is "
    "counted as {k} leaves, and the next person is 1{turn}. {stop} Return {result}.",
    "Play a counting-out game: the list is the circle, counting starts at {first}, number {k} is out each "
    "time, and the count begins again with the person after that one{turn}. {stop} Return {result}.",
)
def counting_out(rng: Random) -> Function:
    """Count people out of a circle."""
    k, offset, remain = rng.randint(2, 7), rng.randint(0, 2), rng.randint(1, 3)
    turn, grow = rng.choice(
        (("", ""), (f"; each time someone leaves, the count grows by one (first {k}, then {k + 1}, ...)", "k += 1"))
    )
    result, code = rng.choice(
        (
            ("the list of those who remain, in the order of the given list", "[p for p in people if p in circle]"),
            ("the list of those who left, in that order", "out"),
            ("the one who left last (the empty string if nobody did)", 'out[-1] if out else ""'),
        )
    )
    source = block(f"""
        def count_out(people: list[str]) -> {"str" if "[-1]" in code else "list[str]"}:
            circle = list(people)
            out = []
            position, k = {offset}, {k}
            for _ in range(len(people) - {remain}):
                position = (position + k - 1) % len(circle)
                out.append(circle[position])
                circle = circle[:position] + circle[position + 1 :]
                {grow}
            return {code}
    """)
    words = {
        "k": k,
        "kth": nth(k),
        "first": f"the person at index {offset} (wrapping around)",
        "turn": turn,
        "result": result,
    }
    words["stop"] = (
        f"The game ends when {remain} of them {'is' if remain == 1 else 'are'} left (at once, if there are no more)."
    )
    names = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gil", "Hana", "Ivo", "Jun"]
    edges = (([],), (["Ada"],), (names[:3],), (names,), (["é", "b", "c", "d"],), (names[::-1][:5],))
    return Function(source, words, lambda r: (r.sample(names, r.randint(3, 9)),), edges)


@function(
    Area.SIMULATION,
    4,
    "A store remembers at most {cap} keys. Look up each key of s in turn: if the store has it, that is a "
    "hit; if not, it is a miss, and the key is added; if the store is full, {evict} is removed first. {miss} "
    "Return {result}.",
    "Simulate a cache with room for {cap} keys. The characters of s are requested in turn. A request is a "
    "hit if the key is in the cache; otherwise it is a miss and the key is added, and a full cache first "
    "drops {evict}. {miss} Return {result}.",
    "The characters of s are keys that are requested from a cache of size {cap}. Hits leave its content as "
    "it is; a miss stores the key, and if there is no room, {evict} is removed first. {miss} Return "
    "{result}.",
)
def cache(rng: Random) -> Function:
    """Count the hits of a cache."""
    cap, a, b = rng.randint(2, 4), rng.randint(1, 5), rng.randint(1, 5)
    evict, index, renew = rng.choice(
        (
            ("the key that was put in first", 0, False),
            ("the key that has gone longest without a request", 0, True),
            ("the key that was put in last", -1, False),
            ("the key that was requested most recently (before this request)", -1, True),
        )
    )
    result, code = rng.choice(
        (
            ("the cost", "cost"),
            ("the keys in the store at the end, sorted, as one string", '"".join(sorted(store))'),
            ("the keys that were removed, in order, as one string", "thrown"),
        )
    )
    source = block(f"""
        def requests(s: str) -> {"int" if code == "cost" else "str"}:
            store = []
            thrown = ""
            cost = 0
            for key in s:
                if key in store:
                    cost += {a}
                    {"store = [k for k in store if k != key] + [key]" if renew else ""}
                else:
                    cost += {a + b}
                    if len(store) == {cap}:
                        thrown += store[{index}]
                        store = [k for k in store if k != store[{index}]]
                    store = store + [key]
            return {code}
    """)
    words = {"cap": cap, "evict": evict, "miss": f"A hit costs {a}, a miss {a + b}.", "result": result}
    edges = (("",), ("a",), ("aaaa",), ("abcde",), ("abacabad",), ("abcabcabc",), ("edcbaabcde",))
    return Function(source, words, lambda r: (letters(r, "abcdef", 6, 16),), edges)


def _arrivals(rng: Random) -> Arguments:
    now, people = 0, []
    for _ in range(rng.randint(3, 8)):
        now += rng.randint(0, 4)
        people.append((now, rng.randint(1, 9)))
    return (people,)


@function(
    Area.SIMULATION,
    5,
    "Customers (arrival, minutes) come to {counters} in this order. Each goes to the counter that is free "
    "first (on a tie, the one with the lowest number) and is served for the given minutes{pause}. Anyone who "
    "would have to wait more than {patience} leaves at once. Return {result}.",
    "A shop with {counters}, free from time 0, serves customers. The list has (arrival, minutes) for each "
    "customer, in order of arrival. A customer takes the counter that becomes free earliest (lowest number "
    "on ties), unless that means waiting more than {patience}, in which case the customer leaves. Service takes the "
    "given minutes{pause}. Return {result}.",
    "Simulate {counters} serving customers (arrival, minutes), sorted by arrival. Each customer goes to "
    "the counter that becomes free earliest (the first such), waiting if needed, but leaves unserved rather "
    "than wait longer than {patience}. Service takes the given minutes{pause}. Return {result}.",
)
def counters(rng: Random) -> Function:
    """Serve customers at several counters."""
    n, patience, rest = rng.randint(1, 3), rng.randint(1, 8), rng.randint(1, 3)
    pause, extra = rng.choice((("", ""), (f", after which the counter pauses for {rest}", f" + {rest}")))
    result, code = rng.choice(
        (
            ("the total time that served customers waited", "waited"),
            ("the list of times at which the served customers were done, in their order", "ends"),
            ("the time from which all counters are free for good", "max(free)"),
            (
                "100 times the number of customers served, plus the longest wait of any of them (0 if nobody was)",
                "100 * len(ends) + longest",
            ),
        )
    )
    source = block(f"""
        def serve(customers: list[tuple[int, int]]) -> {"list[int]" if code == "ends" else "int"}:
            free = [0] * {n}
            waited, longest = 0, 0
            ends = []
            for arrival, minutes in customers:
                best = free.index(min(free))
                wait = max(0, free[best] - arrival)
                if wait > {patience}:
                    continue
                waited += wait
                longest = max(longest, wait)
                ends.append(arrival + wait + minutes)
                free[best] = ends[-1]{extra}
            return {code}
    """)
    edges = (
        ([],),
        ([(0, 5)],),
        ([(0, 4), (0, 4), (0, 4), (0, 4)],),
        ([(1, 9), (2, 9), (3, 1), (4, 1), (5, 2)],),
        ([(0, 1), (10, 2), (20, 3), (20, 3)],),
    )
    words = {"counters": count_of(n, "counter"), "patience": count_of(patience, "minute")}
    words |= {"pause": pause, "result": result}
    return Function(source, words, _arrivals, edges)


@function(
    Area.SIMULATION,
    2,
    "The text has the results of games: `{win}` is worth {w} points, `{draw}` {d}, and anything else {lose}. "
    "From the {kth} `{win}` of an unbroken streak on, each `{win}` of that streak earns {bonus} more. Return "
    "{result}.",
    "Work out the points of a season, one character per game: {w} for `{win}`, {d} for `{draw}`, and {lose} "
    "for anything else. In an unbroken streak of `{win}`, the {kth} and all after it get {bonus} extra. Return "
    "{result}.",
    "Each character of s is a game. `{win}` gives {w} ({bonus} more if it is at least the {kth} in a row), "
    "`{draw}` gives {d}, and every other character {lose}. Return {result}.",
    held_out=True,
)
def season(rng: Random) -> Function:
    """Count points with a bonus for streaks."""
    win, draw = rng.sample("WVTDXR", 2)
    w, d, lose, k, bonus = (
        rng.randint(2, 6),
        rng.randint(0, 1),
        rng.randint(-3, -1),
        rng.randint(2, 4),
        rng.randint(1, 5),
    )
    result, code = rng.choice(
        (("the total", "total"), ("the highest total at any time (0 before the first game)", "best"))
    )
    source = block(f"""
        def points(s: str) -> int:
            total, best, row = 0, 0, 0
            for game in s:
                if game == {win!r}:
                    row += 1
                    total += {w + bonus} if row >= {k} else {w}
                else:
                    row = 0
                    total += {d} if game == {draw!r} else {lose}
                best = max(best, total)
            return {code}
    """)
    words = {"win": win, "draw": draw, "w": w, "d": d, "lose": lose, "kth": nth(k), "bonus": bonus, "result": result}
    edges = (("",), (win,), (win * 6,), (draw * 3,), ("LLL",), (win * 3 + "L" + win * 2 + draw + win * 4,))
    return Function(source, words, lambda r: (letters(r, win * 3 + draw + "L", 5, 14),), edges)
