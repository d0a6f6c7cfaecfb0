"""Function families of classic algorithms with custom rules: intervals, slices, runs, subsequences."""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import Area, Arguments, Function, block, function
from agentgym.tasks.code.material import INT_LISTS, one_list
from agentgym.tasks.code.parts import Clause, int_test


@function(
    Area.ALGORITHMS,
    4,
    "You are given intervals (a, b) with a <= b, in any order. Drop those whose length b - a {test}, then "
    "merge all that overlap or {gap_up}. Return {result}.",
    "Merge a list of intervals (a, b), which is not sorted. Two intervals belong together if they overlap, "
    "or if the later one begins {gap_after} the end of the other. Before merging, discard every "
    "interval whose length b - a {test}. Return {result}.",
    "Given unsorted intervals (a, b), first remove those whose length b - a {test}. Then join any that "
    "overlap or {gap_apart}. Return {result}.",
)
def merge_spans(rng: Random) -> Function:
    """Merge intervals."""
    gap, least, test = rng.randint(0, 6), rng.randint(2, 8), int_test(rng)
    result, code = rng.choice(
        (
            ("the merged intervals, sorted, as tuples", "merged"),
            ("the total length b - a of the merged intervals", "sum(b - a for a, b in merged)"),
            (
                f"the merged intervals with a length b - a of at least {least}, sorted",
                f"[(a, b) for a, b in merged if b - a >= {least}]",
            ),
            (
                "10 times the length b - a of the longest merged interval, plus how many there are (0 if none)",
                "10 * max((b - a for a, b in merged), default=0) + len(merged)",
            ),
            (
                "the gaps between neighbouring merged intervals (begin minus end), in order",
                "[merged[i + 1][0] - merged[i][1] for i in range(len(merged) - 1)]",
            ),
        )
    )
    kind = {"m": "list[tuple[int, int]]", "s": "int", "1": "int"}.get(code[0], "list[tuple[int, int]]")
    kind = "list[int]" if code.startswith("[merged") else kind
    source = block(f"""
        def merge(spans: list[tuple[int, int]]) -> {kind}:
            merged = []
            for a, b in sorted(spans):
                if {test.of("b - a") if "%" not in test.code else test.of("(b - a)")}:
                    continue
                if merged and a - merged[-1][1] <= {gap}:
                    merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
                else:
                    merged.append((a, b))
            return {code}
    """)

    def draw(r: Random) -> Arguments:
        starts = [r.randint(-10, 50) for _ in range(r.randint(3, 7))]
        return ([(a, a + r.randint(0, 9)) for a in starts],)

    edges = (
        ([],),
        ([(3, 3)],),
        ([(0, 20), (2, 5), (6, 7)],),
        ([(0, 2), (2 + gap, 9)],),
        ([(0, 2), (3 + gap, 9)],),
        ([(5, 6), (-4, -1), (5, 8)],),
    )
    words = {"test": test.one, "result": result}
    words["gap_up"] = f"have a gap of at most {gap} between them" if gap else "touch"
    words["gap_after"] = f"no more than {gap} after" if gap else "exactly at"
    words["gap_apart"] = f"are at most {gap} apart" if gap else "touch"
    return Function(source, words, draw, edges)


@function(
    Area.ALGORITHMS,
    4,
    "Consider all slices of {low} to {high} consecutive elements of the list. Return {result}, or {none} if "
    "the list is shorter than {low}.",
    "Look at all contiguous parts of the list with at least {low} and at most {high} elements. Return "
    "{result}. If there is no such part, return {none}.",
    "Return {result}, taken over all slices of {low} to {high} consecutive numbers; if the list has no such "
    "slice, return {none}.",
)
def best_slice(rng: Random) -> Function:
    """Find the best slice of a list."""
    low = rng.randint(1, 3)
    high, none, k = low + rng.randint(1, 3), rng.choice((None, -100)), rng.randint(2, 5)
    value, code = rng.choice(
        (
            ("sum", "sum(part)"),
            (f"sum minus {k} times its length", f"sum(part) - {k} * len(part)"),
            ("difference between its largest and smallest element", "max(part) - min(part)"),
            (f"sum modulo {k + 7}", f"sum(part) % {k + 7}"),
            ("sum of the first and the last element", "part[0] + part[-1]"),
        )
    )
    best, op = rng.choice((("largest", ">"), ("smallest", "<")))
    what, final = rng.choice(
        (
            ("the {best} {value}", "value"),
            ("the slice with the {best} {value} (the one that starts first, of these the shortest)", "part"),
        )
    )
    source = block(f"""
        def best(numbers: list[int]) -> {"int | None" if final == "value" else "list[int] | None"}:
            found = None
            for start in range(len(numbers)):
                for length in range({low}, {high + 1}):
                    part = numbers[start : start + length]
                    if len(part) < length:
                        continue
                    value = {code}
                    if found is None or value {op} found[0]:
                        found = (value, part)
            return {none} if found is None else found[{0 if final == "value" else 1}]
    """)
    words = {"low": low, "high": high, "none": none, "result": what.format(best=best, value=value)}
    return Function(source, words, one_list(4, 9, -12, 15), INT_LISTS)


@function(
    Area.ALGORITHMS,
    3,
    "Remove the numbers that {test}. In what remains, find the longest run of consecutive elements in which "
    "each number after the first {rule} the one before it, and return {result} of that run. If several are "
    "equally long, take the {which} one. If nothing remains, return {none}.",
    "Ignore the numbers that {test}. Among the others, find the longest contiguous run in which every number "
    "but the first {rule} its predecessor (on a tie, the {which} one), and return {result} of it. Return "
    "{none} if no number is left.",
    "First drop all numbers that {test}. A contiguous stretch of the rest is good if each of its numbers "
    "{rule} the number right before it; the first one of a stretch may be anything. Return {result} of the "
    "longest good stretch (the {which} one if there are several), or {none} if nothing is left.",
)
def longest_run(rng: Random) -> Function:
    """Find the longest run under a rule."""
    test = int_test(rng)
    k, first, none = rng.randint(1, 6), rng.random() < 0.5, rng.choice((0, -1))
    rule, code = rng.choice(
        (
            ("is greater than", "b > a"),
            ("is at least as large as", "b >= a"),
            ("is smaller than", "b < a"),
            (f"differs by at most {k} from", f"abs(a - b) <= {k}"),
            (f"differs by more than {k} from", f"abs(a - b) > {k}"),
            ("differs in parity (even or odd) from", "(a - b) % 2 == 1"),
            (f"is at most {k} greater than", f"b - a <= {k}"),
        )
    )
    result, final = rng.choice(
        (
            ("the sum", "sum(best)"),
            ("100 times the length plus the first number", "100 * len(best) + best[0]"),
            ("the last number", "best[-1]"),
        )
    )
    source = block(f"""
        def longest(numbers: list[int]) -> int:
            best, run = [], []
            numbers = [x for x in numbers if not ({test.of("x")})]
            for b in numbers:
                a = run[-1] if run else b
                if run and {code}:
                    run = [*run, b]
                else:
                    run = [b]
                if len(run) {">" if first else ">="} len(best):
                    best = run
            return {final} if best else {none}
    """)
    words = {"result": result, "rule": rule, "which": "first" if first else "last", "none": none, "test": test}
    return Function(source, words, one_list(7, 13, -5, 15), INT_LISTS)


@function(
    Area.ALGORITHMS,
    4,
    "Drop all numbers that {test}. You may drop more of the rest, keeping the order; what remains is good if "
    "each number in it {rule} the one before it. Return {result}, or 0 if no number is left.",
    "Consider the subsequences (elements in their original order, not necessarily adjacent) that contain no "
    "numbers that {test} and in which every number {rule} its predecessor; call these good. Return {result}, "
    "or 0 if there is none.",
    "Call a subsequence good if each of its numbers {rule} the previous one and it contains no numbers that "
    "{test}. Return {result}; if the list has none, return 0.",
)
def subsequence(rng: Random) -> Function:
    """Find the best subsequence under a rule."""
    k, test = rng.randint(2, 9), int_test(rng)
    rule, code = rng.choice(
        (
            ("is greater than", "x > y"),
            ("is at least as large as", "x >= y"),
            ("is smaller than", "x < y"),
            (f"is greater by 1 to {k} than", f"0 < x - y <= {k}"),
            (f"differs by at most {k} from", f"abs(x - y) <= {k}"),
            (f"is greater by at least {k} than", f"x - y >= {k}"),
            ("differs in parity (even or odd) from", "(x - y) % 2 == 1"),
        )
    )
    result, gain = rng.choice(
        (
            ("the length of the longest good one", "1"),
            ("the largest sum of a good one (it has at least one element)", "x"),
            ("the largest sum of squares of a good one", "x * x"),
        )
    )
    rest = "max(before, default=0)" if gain != "x" else "max(0, max(before, default=0))"
    source = block(f"""
        def best(numbers: list[int]) -> int:
            numbers = [x for x in numbers if not ({test.of("x")})]
            ends = []
            for i, x in enumerate(numbers):
                before = [ends[j] for j, y in enumerate(numbers[:i]) if {code}]
                ends.append({gain} + {rest})
            return max(ends, default=0)
    """)
    return Function(source, {"rule": rule, "test": test, "result": result}, one_list(7, 12, -8, 20), INT_LISTS)


@function(
    Area.ALGORITHMS,
    2,
    "Among the numbers that {test}, find the one closest to {target} and return {what}. On a tie, take the "
    "{tie}. If no number qualifies, return {none}.",
    "Of the numbers that {test}, find the one nearest to {target} (the {tie}, if several are equally near) "
    "and return {what}; return {none} if no number qualifies.",
    "Which number of the list is closest to {target}, if only numbers that {test} count? Return {what}. If "
    "two are equally close, use the {tie}; if there is none, return {none}.",
)
def nearest(rng: Random) -> Function:
    """Find the nearest number."""
    test, target, none = int_test(rng), rng.randint(-5, 25), rng.choice((-1, None, -999))
    tie, key = rng.choice(
        (
            ("smaller number", "numbers[i]"),
            ("larger number", "-numbers[i]"),
            ("first in the list", "i"),
            ("last in the list", "-i"),
        )
    )
    if "number" in tie:
        what, final = "its value", "numbers[best]"
    else:
        what, final = rng.choice(
            (
                ("its position (from 0)", "best"),
                ("its value", "numbers[best]"),
                (
                    "the number right after it (or its own value if it is the last)",
                    "(numbers[best:] + [0])[1] if best < len(numbers) - 1 else numbers[best]",
                ),
            )
        )
        final = final.replace("(numbers[best:] + [0])[1]", "numbers[best + 1]")
    source = block(f"""
        def nearest(numbers: list[int]) -> int | None:
            places = [i for i, x in enumerate(numbers) if {test.of("x")}]
            if not places:
                return {none}
            best = min(places, key=lambda i: (abs(numbers[i] - {target}), {key}))
            return {final}
    """)
    words = {"what": what, "target": target, "test": test, "tie": tie, "none": none}
    return Function(source, words, one_list(5, 11), INT_LISTS)


@function(
    Area.ALGORITHMS,
    3,
    "Do the jobs (length, weight) one after another, sorted {order}. {ask}",
    "Jobs (length, weight) are done one after another without a pause, sorted {order}. {ask}",
    "Sort the jobs (length, weight) {order}, and do them without a pause. {ask}",
    held_out=True,
)
def job_sequence(rng: Random) -> Function:
    """Schedule jobs in an order and measure the result."""
    t, k, limit = rng.randint(0, 5), rng.randint(2, 4), rng.randint(10, 25)
    order = rng.choice(
        (
            Clause("by length, shortest first, ties by larger weight", "(j[0], -j[1])"),
            Clause("by weight, largest first, ties by shorter length", "(-j[1], j[0])"),
            Clause("by length minus weight, smallest first, ties by shorter length", "(j[0] - j[1], j[0])"),
            Clause(
                f"by length modulo {k}, smallest first, then by shorter length, then by larger weight",
                f"(j[0] % {k}, j[0], -j[1])",
            ),
        )
    )
    ask, code = rng.choice(
        (
            (
                "Return the sum, over all jobs, of the weight times the time at which the job ends.",
                "total += weight * now",
            ),
            (
                f"Return the sum of the weights of the jobs that end at time {limit} or earlier.",
                f"total += weight if now <= {limit} else 0",
            ),
            (
                f"Return the total lateness: for each job, by how much it ends after time {limit} (0 if it does not).",
                f"total += max(0, now - {limit})",
            ),
        )
    )
    source = block(f"""
        def sequence(jobs: list[tuple[int, int]]) -> int:
            now, total = {t}, 0
            for length, weight in sorted(jobs, key=lambda j: {order.code}):
                now += length
                {code}
            return total
    """)
    words = {"order": order, "t": t, "ask": f"The first job begins at time {t}. {ask}"}
    edges = (
        ([],),
        ([(3, 1)],),
        ([(4, 4), (4, 9), (4, 2)],),
        ([(9, 1), (1, 9), (5, 5), (2, 5)],),
        ([(12, 3), (6, 8), (7, 7), (3, 1)],),
    )
    return Function(
        source, words, lambda r: ([(r.randint(1, 12), r.randint(1, 9)) for _ in range(r.randint(3, 7))],), edges
    )
