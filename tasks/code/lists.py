"""Function families about lists of numbers or words: filters, slices, windows, blocks, duplicates."""

from __future__ import annotations

from random import Random

from agentgym.tasks.code.families import Area, Function, block, function
from agentgym.tasks.code.material import INT_LISTS, WORDS, nth, one_list, words
from agentgym.tasks.code.parts import int_fold, int_map, int_test, word_key, word_map


@function(
    Area.LISTS,
    1,
    "Consider only the numbers of the list that {test}. Return {fold}.",
    "From the list, choose the numbers that {test}, keeping their order, and return {fold}.",
    "Ignore every number of the list except those that {test}, and return {fold}.",
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
    "Starting at index {start} (counting from 0), take every {kth} element of the list. Return a new list, "
    "{order}, in which each of these elements x is replaced with {map}.",
    "Take the elements at indices {start}, {next}, {next2} and so on. For each such element x compute {map}, "
    "and return these values as a list, {order}.",
    "Begin at index {start} and step through the list {k} elements at a time. For every element x you land on, "
    "compute {map}. Return the results as a list, {order}.",
)
def every_kth(rng: Random) -> Function:
    """Slice a list and map it."""
    start, k, change, back = rng.randint(0, 3), rng.randint(2, 4), int_map(rng), rng.random() < 0.5
    source = block(f"""
        def take(numbers: list[int]) -> list[int]:
            taken = numbers[{start}::{k}]
            return [{change.of("x")} for x in {"reversed(taken)" if back else "taken"}]
    """)
    words = {"start": start, "k": k, "next": start + k, "next2": start + 2 * k, "kth": nth(k), "map": change.say("x")}
    words["order"] = "in reverse order" if back else "in the same order"
    return Function(source, words, one_list(4, 11), INT_LISTS)


@function(
    Area.LISTS,
    2,
    "Replace each number x of the list with {map}, keep only the results that {test}, and return {fold}.",
    "For every number x compute {map}. Of these results, only those that {test} count. Return {fold}.",
    "Map each x of the list to {map} and discard the results unless they {test}. Then return {fold}.",
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
    "Look at all windows of {k} consecutive numbers of the list. The value of a window is {map}, where v is "
    "{value}. Return {result}.",
    "Slide a window of length {k} over the list. Each window has the value {map}, with v being {value}. "
    "Return {result}.",
    "For every window of {k} consecutive elements, let v be {value} and compute {map}. From these values, in "
    "order from left to right, return {result}.",
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
    "Cut the list into blocks of {k} elements (the last one may be shorter). {change} Then put the blocks "
    "back together and return the list with every number x replaced with {map}.",
    "Divide the list into consecutive blocks of length {k}, the last one possibly shorter. {change} Then "
    "concatenate the blocks, and replace each number x with {map}. Return the resulting list.",
    "Split the numbers into blocks of {k}; whatever is left over forms a shorter block. {change} Join all "
    "blocks into one list, replace every x in it with {map}, and return it.",
)
def chunks(rng: Random) -> Function:
    """Change a list block by block."""
    k, j, part = rng.randint(2, 4), rng.choice((2, 3)), rng.choice(("even", "odd"))
    final = int_map(rng)
    r = 0 if part == "even" else 1
    change, code = rng.choice(
        (
            (f"Reverse every {nth(j)} block.", f"block[::-1] if i % {j} == 0 else block"),
            ("Sort each block in increasing order.", "sorted(block)"),
            (
                f"Sort every {nth(j)} block in decreasing order.",
                f"sorted(block, reverse=True) if i % {j} == 0 else block",
            ),
            (f"Leave out every {nth(j)} block.", f"[] if i % {j} == 0 else block"),
            (
                f"Move the first element of every {nth(j)} block to its end.",
                f"block[1:] + block[:1] if i % {j} == 0 else block",
            ),
            ("Reverse the blocks whose sum is " + part + ".", f"block[::-1] if sum(block) % 2 == {r} else block"),
            ("Leave out a last block that has fewer elements than the others.", f"block if len(block) == {k} else []"),
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
    "Two words count as alike if they have the same {same}. Of words that are alike, keep only the {which} "
    "one. Return the words that remain, {order}, replacing each with {map}.",
    "Remove duplicates, where two words are duplicates if they have the same {same}: the {which} word of "
    "each such group stays. Take the remaining words {order} and return a list with {map} for each.",
    "Group the words by {same} and keep the {which} word of each group. Return a list of the kept words, "
    "{order}, with {map} in place of each.",
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
            ("in their original order", "[w for i, w in enumerate(words) if i in chosen]"),
            (f"sorted {key}", f"sorted((words[i] for i in sorted(chosen)), key=lambda w: {key.of('w')})"),
            ("in reverse order", "[words[i] for i in sorted(chosen, reverse=True)]"),
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
