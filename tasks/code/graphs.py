"""Function families about graphs, given as lists of edges between numbered nodes."""

from __future__ import annotations

from random import Random

from agentgym.base.choices import count_of
from agentgym.tasks.code.families import Area, Arguments, Function, block, function
from agentgym.tasks.code.material import edge_list
from agentgym.tasks.code.parts import Clause, int_map, int_test

_EDGES: tuple[Arguments, ...] = (
    ([],),
    ([(0, 1)],),
    ([(0, 1), (1, 2), (0, 2)],),
    ([(2, 0), (2, 1), (2, 3), (2, 4)],),
    ([(0, 1), (2, 3), (4, 5), (5, 6), (6, 4)],),
)


def _draw_edges(rng: Random) -> Arguments:
    return (edge_list(rng),)


def _draw_directed(rng: Random) -> Arguments:
    return (edge_list(rng, directed=True),)


@function(
    Area.GRAPHS,
    3,
    "The list holds the edges (a, b) of a graph; {kind}. Find the nodes whose {degree} {test}; only nodes "
    "that occur in an edge count. Return {result}.",
    "A graph is given by its edges (a, b); {kind}. Look at the nodes that occur in an edge and whose "
    "{degree} {test}. Return {result}.",
    "The argument is the list of the edges (a, b) of a graph; {kind}. Consider every node that appears in "
    "them, take those whose {degree} {test}, and return {result}.",
)
def degree_rule(rng: Random) -> Function:
    """Choose nodes by their degree."""
    low, change = rng.randint(1, 3), int_map(rng)
    test = rng.choice(
        (
            Clause(f"is at least {low}", f"{{x}} >= {low}"),
            Clause(f"is at most {low}", f"{{x}} <= {low}"),
            Clause(f"is exactly {low}", f"{{x}} == {low}"),
            Clause(f"is not {low}", f"{{x}} != {low}"),
            Clause("is even (0 is even)", "{x} % 2 == 0"),
            Clause("is odd", "{x} % 2 == 1"),
        )
    )
    kind, degree, code = rng.choice(
        (
            ("they have no direction", "number of edges", "sum(v in edge for edge in edges)"),
            ("they lead from a to b", "number of outgoing edges", "sum(a == v for a, b in edges)"),
            ("they lead from a to b", "number of incoming edges", "sum(b == v for a, b in edges)"),
            (
                "they lead from a to b",
                "number of incoming edges minus outgoing ones",
                "sum((b == v) - (a == v) for a, b in edges)",
            ),
        )
    )
    result, final = rng.choice(
        (
            (f"the sorted list of {change.say('v')} for each such node v", "sorted(values)"),
            (
                f"the list, largest first, of {change.say('v')} for each such node v",
                "sorted(values, reverse=True)",
            ),
            (f"the sum of {change.say('v')} over these nodes v", "sum(values)"),
            (
                f"100 times their number plus the largest value (0 if there is none) of {change.say('v')} among them",
                "100 * len(values) + max(values, default=0)",
            ),
        )
    )
    source = block(f"""
        def choose(edges: list[tuple[int, int]]) -> {"list[int]" if final.startswith("sorted") else "int"}:
            nodes = {{v for edge in edges for v in edge}}
            chosen = []
            for v in nodes:
                degree = {code}
                if {test.of("degree")}:
                    chosen.append(v)
            values = [{change.of("v")} for v in chosen]
            return {final}
    """)
    words = {"kind": kind, "degree": degree, "test": test, "result": result}
    return Function(source, words, lambda r: (edge_list(r, "no direction" not in kind),), _EDGES)


@function(
    Area.GRAPHS,
    4,
    "The edges (a, b) {kind}. Starting from node {start}, follow at most {edges}{block}. Of all nodes that "
    "can be reached this way ({start} itself included), return {result}.",
    "In a graph whose edges (a, b) {kind}, find the nodes that are at most {edges} away from node "
    "{start}{block}. Node {start} itself counts as well. Of all these nodes, return {result}.",
    "Which nodes can be reached from node {start} in at most {moves}? A move follows an edge (a, b); "
    "edges {kind}{block}. Of all these nodes, {start} included, return {result}.",
)
def reach(rng: Random) -> Function:
    """Find the nodes within a number of steps."""
    start, k, bad = rng.randint(0, 3), rng.randint(1, 4), rng.randint(2, 3)
    kind, both = rng.choice((("can be used in both directions", True), ("lead from a to b only", False)))
    closed, check = rng.choice(
        (
            ("", ""),
            (
                f", but never enter a node whose number is a multiple of {bad} (starting on one is fine)",
                f" and b % {bad} != 0",
            ),
            (", but only ever move to a node with a larger number", " and b > a"),
            (", but never move between nodes whose numbers differ by 1", " and abs(a - b) != 1"),
        )
    )
    result, code = rng.choice(
        (
            ("a sorted list", "sorted(seen)"),
            ("the sum of their numbers", "sum(seen)"),
            ("how many there are plus 10 times the largest number", "len(seen) + 10 * max(seen)"),
        )
    )
    ways = "edges + [(b, a) for a, b in edges]" if both else "edges"
    source = block(f"""
        def reach(edges: list[tuple[int, int]]) -> {"list[int]" if code.startswith("sorted") else "int"}:
            ways = {ways}
            seen = {{{start}}}
            for _ in range({k}):
                seen = seen | {{b for a, b in ways if a in seen{check}}}
            return {code}
    """)
    words = {"kind": kind, "start": start, "block": closed, "result": result}
    words |= {"edges": count_of(k, "edge"), "moves": count_of(k, "move")}
    return Function(source, words, _draw_edges if both else _draw_directed, _EDGES)


@function(
    Area.GRAPHS,
    4,
    "Each edge (a, b, w) joins nodes a and b and has weight w. Use only the edges whose weight {test}, but "
    "count every node that occurs in any edge. Return {result}.",
    "The list holds weighted, undirected edges (a, b, w). Only edges whose weight {test} connect anything, "
    "but all nodes that are mentioned count. Return {result}.",
    "Take all nodes mentioned in the edges (a, b, w), and connect a and b wherever w {test}. Return {result}.",
)
def components(rng: Random) -> Function:
    """Find connected components."""
    test = int_test(rng)
    result, code = rng.choice(
        (
            ("the sizes of the connected components, largest first", "sorted(map(len, groups), reverse=True)"),
            (
                "100 times the number of connected components, plus the size of the largest (0 if there are none)",
                "100 * len(groups) + max(map(len, groups), default=0)",
            ),
            ("the smallest node of each connected component, sorted", "sorted(map(min, groups))"),
            ("the sum of the node numbers of each connected component, smallest sum first", "sorted(map(sum, groups))"),
            ("the product of the sizes of the connected components (1 if there are none)", "prod(map(len, groups))"),
        )
    )
    head = "from math import prod\n\n\n" if code.startswith("prod") else ""
    source = head + block(f"""
        def parts(edges: list[tuple[int, int, int]]) -> {"list[int]" if code.startswith("sorted") else "int"}:
            nodes = {{v for a, b, _ in edges for v in (a, b)}}
            groups = [{{v}} for v in sorted(nodes)]
            for a, b, w in edges:
                if {test.of("w")}:
                    joined = {{v for group in groups if a in group or b in group for v in group}}
                    groups = [group for group in groups if not group & joined] + [joined]
            return {code}
    """)
    edges = (
        ([],),
        ([(0, 1, 5)],),
        ([(0, 1, 4), (1, 2, 9), (3, 4, 12), (4, 5, 2)],),
        ([(0, 1, 0), (2, 3, -3), (1, 2, 7), (4, 0, 15)],),
        ([(5, 6, 3), (6, 7, 6), (7, 5, 10), (1, 2, 8)],),
    )
    return Function(source, {"test": test.one, "result": result}, lambda r: (edge_list(r, weights=(-3, 20)),), edges)


@function(
    Area.GRAPHS,
    5,
    "Roads (a, b, w) {kind} and cost w each{toll}. Return {result}, or {none} if there is no way from start to goal.",
    "Each (a, b, w) is a road between places a and b that costs w; roads {kind}{toll}. Return {result}; if "
    "goal cannot be reached from start, return {none}.",
    "Find the cheapest way from start to goal over roads (a, b, w) that {kind} and cost w{toll}. Return "
    "{result}, or {none} if there is no way at all.",
)
def cheapest(rng: Random) -> Function:
    """Find the cheapest path."""
    none, t, k = rng.choice((-1, None, -99)), rng.randint(1, 6), rng.randint(2, 4)
    kind, both = rng.choice((("can be used in both directions", True), ("can only be used from a to b", False)))
    toll, cost = rng.choice(
        (
            ("", "w"),
            (f"; on each road, a toll of {t} comes on top", f"w + {t}"),
            (f"; a road that costs more than {k * 3} costs {t} more", f"w + ({t} if w > {k * 3} else 0)"),
            (
                f"; entering a place whose number is a multiple of {k} costs {t} more",
                f"w + ({t} if b % {k} == 0 else 0)",
            ),
            ("; only the most expensive road of a route has to be paid", "max"),
        )
    )
    result, final = rng.choice(
        (
            ("the lowest total cost", "best[goal]"),
            (
                f"the lowest total cost plus {f'{t} times ' if t > 1 else ''}the number of the goal",
                f"best[goal] + {t} * goal",
            ),
            (f"the lowest total cost, modulo {k + 5}", f"best[goal] % {k + 5}"),
        )
    )
    ways = "roads + [(b, a, w) for a, b, w in roads]" if both else "roads"
    total = "max(best[a], w)" if cost == "max" else f"best[a] + {cost}"
    source = block(f"""
        def cheapest(roads: list[tuple[int, int, int]], start: int, goal: int) -> int | None:
            ways = {ways}
            best = {{start: 0}}
            for _ in range(len(ways)):
                for a, b, w in ways:
                    if a in best:
                        cost = {total}
                        if b not in best or cost < best[b]:
                            best[b] = cost
            return {final} if goal in best else {none}
    """)

    def draw(r: Random) -> Arguments:
        roads = edge_list(r, not both, (1, 12))
        places = sorted({v for road in roads for v in road[:2]})
        return (roads, r.choice(places), r.choice(places))

    edges = (
        ([], 0, 0),
        ([(0, 1, 4)], 0, 1),
        ([(0, 1, 4)], 1, 0),
        ([(0, 1, 9), (0, 2, 3), (2, 1, 3), (1, 3, 2)], 0, 3),
        ([(0, 1, 1), (2, 3, 1)], 0, 3),
        ([(0, 1, 2), (1, 2, 2), (2, 4, 2), (0, 4, 7)], 0, 4),
    )
    return Function(source, {"kind": kind, "toll": toll, "result": result, "none": none}, draw, edges)
