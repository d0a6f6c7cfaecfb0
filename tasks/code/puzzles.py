"""Value families of level 5: searches through choices, orders, mazes and circles."""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import Area, Program, block, value
from agentgym.tasks.code.material import edge_list, ints, listed, nth


@value(
    Area.GRAPHS,
    5,
    "These roads (from, to, cost) can be used in both directions: {roads}. How much does the cheapest route "
    "from {a} to {b} cost{toll}?",
    "Places are connected by two-way roads, given as (place, place, cost): {roads}. What is the lowest cost "
    "of going from {a} to {b}{toll}?",
    "What is the least total cost of getting from {a} to {b} over these two-way roads (end, end, cost): {roads}{toll}?",
)
def route(rng: Random) -> Program:
    """Find the cheapest route over listed roads."""
    roads, toll = edge_list(rng, weights=(2, 30)), rng.choice((0, rng.randint(1, 9)))
    a = rng.choice(roads)[0]
    reachable = _reachable(roads, a)
    b = rng.choice(sorted(reachable - {a}))
    cost = f"w + {toll}" if toll else "w"
    code = block(f"""
        roads = {roads}
        best = {{{a}: 0}}
        for _ in roads:
            for p, q, w in roads + [(q, p, w) for p, q, w in roads]:
                if p in best and best[p] + {cost} < best.get(q, 10**9):
                    best[q] = best[p] + {cost}
        print(best[{b}])
    """)
    words = f", if each road used costs {toll} more than listed" if toll else ""
    return Program(code, {"roads": roads, "a": a, "b": b, "toll": words})


def _reachable(roads: list[tuple[int, ...]], start: int) -> set[int]:
    reached = {start}
    for _ in roads:
        reached |= {v for road in roads if road[0] in reached or road[1] in reached for v in road[:2]}
    return reached


@value(
    Area.ALGORITHMS,
    5,
    "How many subsets of the positions of {xs} are there whose numbers {cond}? The empty subset counts if it "
    "qualifies (its sum is 0).",
    "Each number in {xs} may be taken or left; equal numbers at different places count as different. In how "
    "many of the possible choices do the numbers taken {cond}? Taking none is a choice, with sum 0.",
    "Count the ways to choose any number of elements of {xs} (none is allowed, with sum 0; equal elements at "
    "different places count separately) such that they {cond}.",
)
def subset_count(rng: Random) -> Program:
    """Count subsets by their sum."""
    xs, k, t = ints(rng, 7, 9, 1, 25), rng.randint(3, 9), rng.randint(15, 70)
    r = rng.randrange(k)
    text, code = rng.choice(
        (
            (f"have a sum from {t} to {t + k}", f"{t} <= sum(c) <= {t + k}"),
            (
                f"have a sum that leaves a remainder of {r} when divided by {k}"
                if r
                else f"have a sum divisible by {k}",
                f"sum(c) % {k} == {r}",
            ),
            (f"have a sum above {t} and are at most {k - 1} in number", f"sum(c) > {t} and len(c) <= {k - 1}"),
        )
    )
    code = block(f"""
        from itertools import combinations

        xs = {xs}
        print(sum(1 for n in range(len(xs) + 1) for c in combinations(xs, n) if {code}))
    """)
    return Program(code, {"xs": xs, "cond": text})


@value(
    Area.ALGORITHMS,
    5,
    "In how many orders can the {n} people {people} stand in a row if {rules}?",
    "{people} line up in a row. How many different orders are possible if {rules}?",
    "Count the arrangements of {people} in one row for which {rules}.",
)
def arrangements(rng: Random) -> Program:
    """Count arrangements under rules."""
    people = "ABCDEF"[: rng.randint(5, 6)]
    a, b, c, d = rng.sample(people, 4)
    k = rng.randint(2, len(people) - 1)
    rules = (
        (f"{a} stands somewhere before {b}", f"p.index('{a}') < p.index('{b}')"),
        (f"{a} and {c} are not neighbours", f"abs(p.index('{a}') - p.index('{c}')) != 1"),
        (f"{b} and {d} are neighbours", f"abs(p.index('{b}') - p.index('{d}')) == 1"),
        (f"{d} is not in place {k}", f"p[{k - 1}] != '{d}'"),
        (f"{c} is among the first {k} in the row", f"p.index('{c}') < {k}"),
        (f"there is at least one person between {b} and {c}", f"abs(p.index('{b}') - p.index('{c}')) > 1"),
        (f"{a} is neither first nor last", f"0 < p.index('{a}') < {len(people) - 1}"),
    )
    rule_pairs = rng.sample(rules, rng.randint(2, 3))
    test = " and ".join(code for _, code in rule_pairs)
    code = f"from itertools import permutations\n\nprint(sum(1 for p in permutations('{people}') if {test}))\n"
    words = {"n": len(people), "people": listed(people), "rules": ", and ".join(text for text, _ in rule_pairs)}
    return Program(code, words)


@value(
    Area.GRAPHS,
    5,
    "In this maze, `#` is a wall; one step goes up, down, left or right to a free cell.\n{maze}\nHow many "
    "steps does the shortest way from S to {goal} take?",
    "What is the length, in steps, of the shortest way from S to {goal}? Walls are `#`, and moves go to the "
    "four neighbouring cells:\n{maze}",
    "{maze}\nStarting at S in this maze, and moving up, down, left or right but never onto a `#`, what is "
    "the fewest steps in which you can get to {goal}?",
)
def maze_steps(rng: Random) -> Program:
    """Find the shortest path through a maze."""
    height, width = rng.randint(6, 9), rng.randint(8, 14)
    cells = [["#" if rng.random() < 0.28 else "." for _ in range(width)] for _ in range(height)]
    r, c = rng.randrange(height), rng.randrange(width)
    cells[r][c] = "S"
    far, level = [(r, c)], {(r, c)}
    for _ in range(rng.randint(5, 40)):
        near = {(p + dp, q + dq) for p, q in level for dp, dq in ((0, 1), (1, 0), (0, -1), (-1, 0))}
        near = {(p, q) for p, q in near if 0 <= p < height and 0 <= q < width and cells[p][q] == "."}
        far = sorted(near - {(r, c)}) or far
        level = near
    p, q = rng.choice(far)
    cells[p][q] = "S" if (p, q) == (r, c) else "G"
    maze = "\n".join("".join(row) for row in cells)
    goal = "G" if (p, q) != (r, c) else "S"
    code = block(f"""
        rows = {maze!r}.split("\\n")
        places = {{(r, c): sign for r, row in enumerate(rows) for c, sign in enumerate(row) if sign != "#"}}
        steps = 0
        reached = {{place for place, sign in places.items() if sign == "S"}}
        while not any(places[place] == "{goal}" for place in reached):
            near = {{(r + d, c + e) for r, c in reached for d, e in ((0, 1), (1, 0), (0, -1), (-1, 0))}}
            reached, steps = reached | (near & set(places)), steps + 1
        print(steps)
    """)
    return Program(code, {"maze": maze, "goal": goal})


@value(
    Area.SIMULATION,
    5,
    "{n} people stand in a circle, numbered 1 to {n}. Counting starts at person 1; every {kth} person "
    "leaves, and counting goes on with the next one. {ask}",
    "The numbers 1 to {n} form a circle. Counting from 1, every {kth} number is removed, and counting goes on "
    "with the one after it. {ask}",
    "In a counting-out game, players 1 to {n} stand in a circle. Starting the count at player 1, every {kth} "
    "player still in the game is out. {ask}",
)
def circle(rng: Random) -> Program:
    """Play a counting-out game."""
    n, k, m = rng.randint(20, 150), rng.randint(2, 12), rng.randint(2, 9)
    ask, code = rng.choice(
        (
            ("Which one is left at the end?", "out[-1]"),
            (f"Which one is the {nth(m + 3)} to go?", f"out[{m + 2}]"),
            (
                f"What is the sum of the last {m} numbers to go (the one that remains counts as the last)?",
                f"sum(out[-{m}:])",
            ),
            (f"What is the sum of the first {m} numbers to go?", f"sum(out[:{m}])"),
        )
    )
    code = block(f"""
        circle, out, place = list(range(1, {n + 1})), [], 0
        while circle:
            place = (place + {k - 1}) % len(circle)
            out.append(circle.pop(place))
        print({code})
    """)
    return Program(code, {"n": n, "kth": nth(k), "ask": ask})


@value(
    Area.ALGORITHMS,
    5,
    "Items with (weight, value) {things} can be packed, each at most once, up to a total weight of {cap}. "
    "What is the largest total value{rule}?",
    "A bag can carry at most {cap}. These items (weight, value) are available, one of each: {things}. What "
    "is the best total value that fits{rule}?",
    "From the items {things}, given as pairs of weight and value, choose each at most once, with a total "
    "weight of at most {cap}. What is the greatest total value you can reach{rule}?",
    held_out=True,
)
def knapsack(rng: Random) -> Program:
    """Pack a knapsack."""
    things = [(rng.randint(2, 15), rng.randint(3, 40)) for _ in range(rng.randint(6, 9))]
    cap, most = rng.randint(18, 45), rng.choice((0, rng.randint(2, 4)))
    code = block(f"""
        from itertools import combinations

        things, best = {things}, 0
        for n in range({most or len(things)} + 1):
            for chosen in combinations(things, n):
                if sum(w for w, _ in chosen) <= {cap}:
                    best = max(best, sum(v for _, v in chosen))
        print(best)
    """)
    rule = f", with at most {most} items" if most else ""
    return Program(code, {"things": things, "cap": cap, "rule": rule})
