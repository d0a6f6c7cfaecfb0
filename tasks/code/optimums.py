"""Function families that look for the best choice: coin change, edit distances, spaced elements, grid paths."""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import Area, Arguments, Function, block, function
from agentgym.tasks.code.material import INT_LISTS, letters, listed, one_list
from agentgym.tasks.code.parts import int_map, int_test


@function(
    Area.ALGORITHMS,
    5,
    "Coins of {coins} are available{limit}. Return {result} that pay exactly the given amount, or {none} if it "
    "cannot be paid.",
    "An amount has to be paid exactly, with coins of value {coins}{limit}. Return {result} that do it; "
    "if it is impossible, return {none}.",
    "Using coins worth {coins}{limit}, what is {result} that make up exactly the given amount? If no choice "
    "of coins does, return {none}.",
)
def pay(rng: Random) -> Function:
    """Pay with few coins, or count the ways."""
    coins = sorted(rng.sample(range(2, 15), rng.randint(3, 4)))
    none, most = rng.choice((-1, None, 0)), rng.randint(2, 4)
    bounded = rng.random() < 0.4
    result, start, combine = rng.choice(
        (
            ("the smallest number of coins", "0", "min(best.get(total, steps), steps)"),
            ("the largest number of coins", "0", "max(best.get(total, steps), steps)"),
            ("the number of different choices of coins (the order does not matter)", "1", "best.get(total, 0) + steps"),
        )
    )
    add = "old[total - k * coin]" if start == "1" else "old[total - k * coin] + k"
    source = block(f"""
        def pay(amount: int) -> int | None:
            best = {{0: {start}}}
            for coin in {tuple(coins)!r}:
                old, best = best, {{}}
                for total in range(amount + 1):
                    for k in range({f"min({most}, total // coin)" if bounded else "total // coin"} + 1):
                        if total - k * coin in old:
                            steps = {add}
                            best[total] = {combine}
            return best.get(amount, {none})
    """)
    words = {"coins": listed(coins), "result": result, "none": none}
    words["limit"] = f", at most {most} of each" if bounded else ", as many of each as needed"
    return Function(
        source, words, lambda r: (r.randint(5, 45),), ((0,), (1,), (coins[0],), (coins[0] + coins[-1],), (29,))
    )


@function(
    Area.ALGORITHMS,
    5,
    "Return the lowest cost of turning text a into text b. Inserting a character costs {ins}, deleting one "
    "costs {dele}, and replacing one by another costs {rep}{extra}.",
    "What is the lowest cost of changing a into b? An insertion costs {ins}, a deletion {dele}, and a "
    "replacement of one character by a different one {rep}{extra}.",
    "Compute the edit distance from a to b with these costs: insert {ins}, delete {dele}, replace {rep}{extra}.",
)
def edit_cost(rng: Random) -> Function:
    """Compute an edit distance with costs."""
    ins, dele, rep, special = rng.randint(1, 7), rng.randint(1, 7), rng.randint(1, 11), rng.randint(1, 4)
    extra, code = rng.choice(
        (
            ("", f"{rep}"),
            (
                f"; replacing a vowel (aeiou) by another vowel, however, costs {special}",
                f"({special} if x in 'aeiou' and y in 'aeiou' else {rep})",
            ),
            (
                f"; replacing a letter by one of its neighbours in the alphabet, however, costs {special}",
                f"({special} if abs(ord(x) - ord(y)) == 1 else {rep})",
            ),
        )
    )
    source = block(f"""
        def cost(a: str, b: str) -> int:
            row = [{ins} * j for j in range(len(b) + 1)]
            for i, x in enumerate(a, 1):
                new = [{dele} * i]
                for j, y in enumerate(b, 1):
                    change = row[j - 1] + (0 if x == y else {code})
                    new.append(min(row[j] + {dele}, new[j - 1] + {ins}, change))
                row = new
            return row[-1]
    """)

    def draw(r: Random) -> Arguments:
        a = letters(r, "abcdeno", 3, 7)
        b = "".join(r.choice((c, c, "a", "", c + "e")) for c in a)
        return (a, b) if r.random() < 0.7 else (a, letters(r, "abcdeno", 2, 7))

    edges = (("", ""), ("abc", ""), ("", "né"), ("abc", "abc"), ("kitten", "sitting"), ("aei", "oua"))
    return Function(source, {"ins": ins, "dele": dele, "rep": rep, "extra": extra}, draw, edges)


@function(
    Area.ALGORITHMS,
    5,
    "Choose some of the numbers so that the positions of any two chosen ones differ by at least {k1}.{only} "
    "Return the largest possible {value}; choosing nothing gives 0.",
    "You may choose elements of the list, but the positions of any two must be at least {k1} apart.{only} "
    "What is the largest {value} you can get? You may choose none, which gives 0.",
    "Pick elements of the list whose positions differ by at least {k1} from each other.{only} Maximise the "
    "{value} and return it (0 if nothing is picked).",
)
def pick_apart(rng: Random) -> Function:
    """Choose elements that are far apart."""
    k, fee, test = rng.randint(1, 3), rng.randint(1, 5), int_test(rng)
    extra, check = rng.choice((("", ""), *[(f" Choose only from the numbers that {test}.", test.of("x"))] * 4))
    value, gain = rng.choice(
        (
            ("sum", "x"),
            (f"sum minus {fee} for each chosen number", f"x - {fee}"),
            ("sum of the squares", "x * x"),
            ("sum of the absolute values", "abs(x)"),
        )
    )
    source = block(f"""
        def choose(numbers: list[int]) -> int:
            best = [0]
            for i, x in enumerate(numbers):
                gain = {gain}
                before = best[i - {k}] if i > {k} else 0
                {f"if not ({check}):" if check else ""}
                {"    gain = 0" if check else ""}
                best.append(max(best[i], before + gain))
            return best[-1]
    """)
    words = {"k": k, "k1": k + 1, "only": extra, "value": value}
    return Function(source, words, one_list(5, 10), INT_LISTS)


@function(
    Area.ALGORITHMS,
    5,
    "A grid of numbers is given as a list of rows. Start in any cell of the first row. Each move "
    "goes {moves}, until you are in the last row. The score of a cell with number x is {cell}; add up the scores of "
    "all cells you pass. Return the {best} possible sum (0 for an empty grid).",
    "Find the path through a grid (a list of rows) with the {best} total score, where a cell with number x "
    "scores {cell}. The path begins in the first row and ends in the last, and each move goes {moves}. "
    "Return that total, or 0 if there are no rows.",
    "In a grid of numbers you begin anywhere in the first row, and each move goes {moves}, until you reach "
    "the last row. "
    "Each cell with number x on the way, including the first and the last, gives {cell}. What is the {best} "
    "possible total? Return 0 for a grid without rows.",
)
def grid_way(rng: Random) -> Function:
    """Find the best path through a grid."""
    best, op = rng.choice((("largest", "max"), ("smallest", "min")))
    cell = int_map(rng)
    moves, deltas = rng.choice(
        (
            ("one down, or one down and one left or right", (-1, 0, 1)),
            ("one down, or one down and one right", (-1, 0)),
            ("one down, or one down and one left", (0, 1)),
            ("one down and one left, or one down and one right", (-1, 1)),
            ("one down, or one down and two to the left or right", (-2, 0, 2)),
        )
    )
    source = block(f"""
        def way(grid: list[list[int]]) -> int:
            row = [0] * len(grid[0]) if grid else [0]
            for step, cells in enumerate(grid):
                new = []
                for c, x in enumerate(cells):
                    come = [row[c + d] for d in {deltas!r} if 0 <= c + d < len(row)]
                    if step == 0:
                        come = [0]
                    new.append({op}(come) + {cell.of("x")})
                row = new
            return {op}(row)
    """)

    def draw(r: Random) -> Arguments:
        width = r.randint(3, 5)
        return ([[r.randint(-3, 14) for _ in range(width)] for _ in range(r.randint(2, 5))],)

    edges = (
        ([],),
        ([[7, 2, 5]],),
        ([[1, 9, 1], [1, 9, 1], [9, 1, 9]],),
        ([[0, 0, 0], [-1, 3, -1]],),
        ([[5, 1, 1, 5], [1, 5, 5, 1], [9, 1, 1, 2]],),
    )
    return Function(source, {"moves": moves, "cell": cell.say("x"), "best": best}, draw, edges)
