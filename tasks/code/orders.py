"""Function families about orders and trees."""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import Area, Arguments, Function, block, function
from agentgym.tasks.code.parts import int_test


@function(
    Area.GRAPHS,
    5,
    "Jobs 0 to n - 1 are to be done one after another; a pair (a, b) means that {pair}. If several jobs are "
    "possible next, take {pick}. Return {result}, or {none} if no order is possible.",
    "Put the jobs 0, 1, ..., n - 1 in an order that respects all rules, where (a, b) means that {pair}. At "
    "each step, of the jobs that are possible, do {pick}. Return {result}, or {none} if the rules contradict "
    "each other.",
    "There are n jobs, numbered from 0. A rule (a, b) says that {pair}. Among the jobs that can be done now, "
    "always continue with {pick}. Return {result}. If you get stuck before all are done, return {none}.",
)
def order_jobs(rng: Random) -> Function:
    """Order jobs by rules."""
    none, k, m = rng.choice((None, [], [-1])), rng.randint(2, 11), rng.randint(2, 9)
    pair, wait = rng.choice((("a must be done before b", "b == j and a"), ("a must be done after b", "a == j and b")))
    pick, choice = rng.choice(
        (
            (
                f"the one whose number is farthest from {m} (on a tie, the larger number)",
                f"max(ready, key=lambda j: (abs(j - {m}), j))",
            ),
            (
                f"the one whose number plus {m} has the largest remainder modulo {k} (on a tie, the larger number)",
                f"max(ready, key=lambda j: ((j + {m}) % {k}, j))",
            ),
            (
                f"the one whose number times {m} has the smallest remainder modulo {k} (on a tie, the smallest number)",
                f"min(ready, key=lambda j: ({m} * j % {k}, j))",
            ),
            (
                f"the one whose number is closest to {k} (ties: the smaller)",
                f"min(ready, key=lambda j: (abs(j - {k}), j))",
            ),
        )
    )
    result, final = rng.choice((("the order as a list", "done"), ("the reversed order as a list", "done[::-1]")))
    source = block(f"""
        def order(n: int, rules: list[tuple[int, int]]) -> list[int] | None:
            done = []
            for _ in range(n):
                ready = []
                for j in range(n):
                    waiting = any({wait} not in done for a, b in rules)
                    if j not in done and not waiting:
                        ready.append(j)
                if not ready:
                    return {none}
                done.append({choice})
            return {final}
    """)

    def draw(r: Random) -> Arguments:
        n = r.randint(4, 7)
        place = r.sample(range(n), n)
        pairs = [(a, b) for a in range(n) for b in range(n) if place[a] < place[b] or (a != b and r.random() < 0.02)]
        return (n, r.sample(pairs, min(len(pairs), r.randint(2, n + 1))))

    edges = (
        (0, []),
        (1, []),
        (4, []),
        (3, [(0, 1), (1, 2), (2, 0)]),
        (5, [(4, 0), (3, 1), (4, 3)]),
        (6, [(5, 2), (1, 5)]),
    )
    return Function(source, {"pair": pair, "pick": pick, "result": result, "none": none}, draw, edges)


@function(
    Area.GRAPHS,
    4,
    "In a forest, parents[i] is the parent of node i, or -1 for a root; a parent always has a smaller number "
    "than its child. A root has depth {base}, and any other node has depth {more} more than its parent. "
    "Return {result}.",
    "A forest is given by the parent of each node (-1 means it is a root; parents come before children). "
    "Roots have depth {base}, and each further level adds {more}. Return {result}.",
    "Nodes 0, 1, 2, ... have the given parents (a smaller number, or -1 for none). The depth is {base} for "
    "nodes without a parent and grows by {more} from parent to child. Return {result}.",
    held_out=True,
)
def tree_depths(rng: Random) -> Function:
    """Compute depths in a forest."""
    base, more, test, limit = rng.randint(0, 9), rng.randint(1, 7), int_test(rng), rng.randint(2, 4)
    result, code = rng.choice(
        (
            (f"the list of all depths that {test}", f"[d for d in depths if {test.of('d')}]"),
            (
                f"the sum of the depths of nodes whose number {test.one}",
                f"sum(d for i, d in enumerate(depths) if {test.of('i')})",
            ),
            (
                "the sum of the depths of the leaves (nodes that are nobody's parent)",
                "sum(d for i, d in enumerate(depths) if i not in parents)",
            ),
            (
                f"the nodes with a depth of at least {base + limit}, sorted",
                f"[i for i, d in enumerate(depths) if d >= {base + limit}]",
            ),
        )
    )
    source = block(f"""
        def tree_depths(parents: list[int]) -> {"int" if code.startswith("sum") else "list[int]"}:
            depths = []
            for parent in parents:
                if parent == -1:
                    depths.append({base})
                else:
                    depths.append(depths[parent] + {more})
            return {code}
    """)

    def draw(r: Random) -> Arguments:
        return ([r.randint(max(-1, i - 3), i - 1) for i in range(r.randint(4, 11))],)

    edges = (([],), ([-1],), ([-1, -1, -1],), ([-1, 0, 1, 2, 3],), ([-1, 0, 0, 0, 1, 1, 5],))
    return Function(source, {"base": base, "more": more, "result": result}, draw, edges)
