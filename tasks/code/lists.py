"""Function families about lists of numbers or words: filters, slices, windows, blocks, duplicates."""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import Area, Function, block, function
from agentgym.tasks.code.material import INT_LISTS, WORDS, one_list, words
from agentgym.tasks.code.parts import int_fold, int_map, int_test, word_key, word_map


@function(
    Area.LISTS,
    1,
    "Return {fold}: the numbers of the list that {test}.",
    "Of the list of numbers, consider only those that {test}, and return {fold}.",
    "Take the numbers that {test} (in their order). The result is {fold}.",
)
def pick_and_fold(rng: Random) -> Function:
    """Filter and reduce."""
    test, fold = int_test(rng), int_fold(rng, "the chosen numbers")
    source = block(f"""
        def pick(numbers: list[int]) -> int:
            chosen = [x for x in numbers if {test.of("x")}]
            return {fold.of("chosen")}
    """)
    return Function(source, {"test": test, "fold": fold}, one_list(), INT_LISTS)


@function(
    Area.LISTS,
    1,
    "Return a new list: of the elements from position {start} on (counted from 0) every {k}. one, {order}, each "
    "replaced by {map}.",
    "Begin at position {start} (positions count from 0) and take every {k}. element. Return, {order}, {map} for each "
    "of them.",
    "Take the elements at positions {start}, {next}, {next2}, ... (from 0). Give back the list of {map}, for each "
    "element x of these, {order}.",
)
def every_kth(rng: Random) -> Function:
    """Slice a list and map it."""
    start, k, change, back = rng.randint(0, 3), rng.randint(2, 4), int_map(rng), rng.random() < 0.5
    source = block(f"""
        def take(numbers: list[int]) -> list[int]:
            taken = numbers[{start}::{k}]
            return [{change.of("x")} for x in {"reversed(taken)" if back else "taken"}]
    """)
    words = {"start": start, "k": k, "next": start + k, "next2": start + 2 * k, "map": change.say("the element")}
    words["order"] = "last one first" if back else "in their order"
    return Function(source, words, one_list(4, 11), INT_LISTS)


@function(
    Area.LISTS,
    2,
    "Replace each number x of the list by {map}, then keep those results that {test}, and return {fold}.",
    "For every number x compute {map}. Of what you get, only results that {test} count. Return {fold}.",
    "Return {fold}, where a result is {map} for a number x of the list, and results that do not fit are dropped: they "
    "fit if they {test}.",
)
def map_filter_fold(rng: Random) -> Function:
    """Map, filter and reduce."""
    change, test, fold = int_map(rng), int_test(rng), int_fold(rng, "these results")
    source = block(f"""
        def combine(numbers: list[int]) -> int:
            results = [{change.of("x")} for x in numbers]
            results = [r for r in results if {test.of("r")}]
            return {fold.of("results")}
    """)
    return Function(source, {"map": change.say("x"), "test": test, "fold": fold}, one_list(), INT_LISTS)


@function(
    Area.LISTS,
    3,
    "Look at all windows of {k} neighbouring numbers of the list. The value of a window is {map}, where v is {value}. "
    "Return {result}.",
    "Slide a window of length {k} over the list and give each window a value: {map}, with v being {value}. The result "
    "is {result}.",
    "For each stretch of exactly {k} consecutive elements let v be {value} and compute {map}; from these values (left "
    "to right) return {result}.",
)
def windows(rng: Random) -> Function:
    """Slide a window over a list."""
    k, limit, none, change = rng.randint(2, 4), rng.randint(5, 40), rng.choice((-1, 0, -99)), int_map(rng)
    value, code = rng.choice(
        (
            ("its sum", "sum(w)"),
            ("its largest number", "max(w)"),
            ("its largest minus its smallest number", "max(w) - min(w)"),
            ("its last minus its first number", "w[-1] - w[0]"),
            ("the sum of its first and last number", "w[0] + w[-1]"),
            ("the number of different numbers in it, times its first", "len(set(w)) * w[0]"),
        )
    )
    result, final = rng.choice(
        (
            (f"the values that are above {limit}, as a list", f"[v for v in values if v > {limit}]"),
            ("the list of all values", "values"),
            (f"the sum of the values that are below {limit}", f"sum(v for v in values if v < {limit})"),
            (f"the largest value ({none} if there is no window)", f"max(values, default={none})"),
            (
                f"the position (from 0) of the first window with the smallest value ({none} if there is no window)",
                f"values.index(min(values)) if values else {none}",
            ),
        )
    )
    kind = "list[int]" if final.startswith(("[", "values")) and "index" not in final else "int"
    source = block(f"""
        def slide(numbers: list[int]) -> {kind}:
            values = []
            for i in range(len(numbers) - {k - 1}):
                w = numbers[i : i + {k}]
                v = {code}
                values.append({change.of("v")})
            return {final}
    """)
    return Function(
        source, {"k": k, "value": value, "map": change.say("v"), "result": result}, one_list(4, 10), INT_LISTS
    )


@function(
    Area.LISTS,
    2,
    "Cut the list into pieces of {k} (the last one may be shorter). {change} Then string the pieces together again "
    "and return the list with {map} for each number x.",
    "Return the list after this: it is divided into consecutive chunks of length {k}, the last possibly shorter. "
    "{change} The chunks are then concatenated, and each number x replaced by {map}.",
    "Split the numbers into blocks of {k} elements; what is left over is a shorter block. {change} Join all blocks "
    "into one list, and return {map} for every x in it.",
)
def chunks(rng: Random) -> Function:
    """Change a list block by block."""
    k, j, part = rng.randint(2, 4), rng.choice((2, 3)), rng.choice(("even", "odd"))
    final = int_map(rng)
    r = 0 if part == "even" else 1
    change, code = rng.choice(
        (
            (f"Reverse every {j}. block.", f"block[::-1] if i % {j} == 0 else block"),
            ("Sort every block upwards.", "sorted(block)"),
            (f"Sort every {j}. block downwards.", f"sorted(block, reverse=True) if i % {j} == 0 else block"),
            (f"Leave out every {j}. block.", f"[] if i % {j} == 0 else block"),
            (
                f"Move the first element of every {j}. block to its end.",
                f"block[1:] + block[:1] if i % {j} == 0 else block",
            ),
            ("Reverse the blocks whose sum is " + part + ".", f"block[::-1] if sum(block) % 2 == {r} else block"),
            ("Leave out the blocks that are shorter than the others should be.", f"block if len(block) == {k} else []"),
        )
    )
    source = block(f"""
        def blocks(numbers: list[int]) -> list[int]:
            out = []
            for i, start in enumerate(range(0, len(numbers), {k}), 1):
                block = numbers[start : start + {k}]
                out += {code}
            return [{final.of("x")} for x in out]
    """)
    return Function(source, {"k": k, "change": change, "map": final.say("x")}, one_list(5, 13), INT_LISTS)


@function(
    Area.LISTS,
    2,
    "Two words are alike if they have the same {same}. Of words that are alike keep only the {which}. Return the kept "
    "words {order}, and instead of each {map}.",
    "Remove words that are alike, where alike means the same {same}: of each such group the {which} word stays. Give, "
    "for the remaining ones {order}, {map}.",
    "Make a list without repeats, {order}. A word counts as a repeat if it shares its {same} with another one; the "
    "{which} of them is kept. Return the list of {map} for these.",
)
def keep_one(rng: Random) -> Function:
    """Remove duplicates by a key."""
    same, code = rng.choice(
        (
            ("length", "len(w)"),
            ("first character", "w[:1]"),
            ("last character", "w[-1:]"),
            ("lower-case form", "w.lower()"),
            ("first two characters", "w[:2]"),
            ("set of characters", "frozenset(w)"),
            ("number of letters 'e'", "w.count('e')"),
        )
    )
    first, key, change = rng.random() < 0.5, word_key(rng), word_map(rng)
    order, final = rng.choice(
        (
            ("in the order of the list", "[w for i, w in enumerate(words) if i in chosen]"),
            (f"sorted {key}", f"sorted((words[i] for i in sorted(chosen)), key=lambda w: {key.of('w')})"),
            ("in the reverse order of the list", "[words[i] for i in sorted(chosen, reverse=True)]"),
        )
    )
    store = "place.setdefault(key, i)" if first else "place[key] = i"
    source = block(f"""
        def keep(words: list[str]) -> list[str]:
            place = {{}}
            for i, w in enumerate(words):
                key = {code}
                {store}
            chosen = set(place.values())
            kept = {final}
            return [{change.of("w")} for w in kept]
    """)
    edges = (([],), (["a"],), (["on", "On", "ON", "no"],), (["level", "level", "eve", ""],), (list(WORDS[:9]),))
    words_ = {"same": same, "which": "first" if first else "last", "order": order, "map": change.say("the word")}
    return Function(source, words_, lambda r: (words(r, 4, 9),), edges)
