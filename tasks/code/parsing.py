"""Function families that read text formats: settings, durations, logs, ranges."""

from __future__ import annotations

from random import Random

from agentgym.base.choices import count_of
from agentgym.tasks.code.families import Area, Arguments, Function, block, function
from agentgym.tasks.code.parts import int_fold, int_test

_KEYS = ("a", "b", "cat", "dog", "ip", "Zed", "é")


@function(
    Area.PARSING,
    2,
    "The text holds settings `key{eq}number`, separated by {sep}, with optional spaces around each part. "
    "{twice} Leave out settings whose number {drop}. Return a dict of the rest; for an empty or blank text, "
    "return an empty dict.",
    "Read a text of the form `key{eq}number{sep_raw}key{eq}number...` into a dict with integer values "
    "(spaces around any part do not matter). {twice} Keys whose final number {drop} are left out. A blank "
    "text gives an empty dict.",
    "Parse settings into a dict from key to int. Entries are separated by {sep}, and key and number by "
    "`{eq}`; strip the spaces. {twice} Finally, drop the keys whose number {drop}. For a blank text, return "
    "an empty dict.",
)
def read_settings(rng: Random) -> Function:
    """Read `key=value` pairs."""
    eq, sep, test = rng.choice("=:>~"), rng.choice(";,|/&"), int_test(rng)
    twice, code = rng.choice(
        (
            ("If a key comes again, the later number counts.", "number"),
            ("If a key comes again, the numbers are added.", "found.get(key, 0) + number"),
            ("If a key comes again, the first number counts.", "found.get(key, number)"),
            ("If a key comes again, the larger number counts.", "max(found.get(key, number), number)"),
        )
    )
    source = block(f"""
        def settings(text: str) -> dict[str, int]:
            found = {{}}
            for part in text.split({sep!r}) if text.strip() else []:
                key, _, value = part.partition({eq!r})
                key, number = key.strip(), int(value)
                found[key] = {code}
            return {{key: number for key, number in found.items() if not ({test.of("number")})}}
    """)

    def text(pairs: list[tuple[str, int]], space: str = "") -> Arguments:
        return ((space + sep + space).join(f"{key}{space}{eq}{number}" for key, number in pairs),)

    def draw(r: Random) -> Arguments:
        pairs = [(r.choice(_KEYS), r.randint(-9, 30)) for _ in range(r.randint(2, 7))]
        return text(pairs, r.choice(("", "", " ")))

    edges = (
        ("",),
        ("  ",),
        text([("a", 4)]),
        text([("a", 3), ("b", 7), ("a", -2)], " "),
        text([("é", 0), ("é", 11), ("x", 12), ("x", 5)]),
    )
    words = {"eq": eq, "sep": f"`{sep}`", "sep_raw": sep, "twice": twice, "drop": test.one}
    return Function(source, words, draw, edges)


@function(
    Area.PARSING,
    3,
    "Durations are written like `2{a}3{b}` or `5{b}10{c}`: numbers, each followed by a unit. One {b} is {nc} {c}, one "
    "{a} is {nb} {b}. Return the duration in {c}. A number without a unit at the end counts as {rest}. A leading `-` "
    "makes the result negative; an empty text is 0.",
    "Convert a duration such as `1{a}4{b}7{c}` to {c} ({nb} {b} in each {a}, {nc} {c} in each {b}; units may come in "
    "any order and repeat). Trailing digits without a unit are {rest}. With a `-` in front the result is negative. '' "
    "is 0.",
    "The text is a duration: numbers with the units {a}, {b} and {c} ({a} = {nb} {b}, {b} = {nc} {c}), without "
    "spaces. Return how many {c} it is; digits at the end that have no unit mean {rest}; a leading `-` "
    "makes the result negative; an empty text is 0.",
)
def read_duration(rng: Random) -> Function:
    """Read a duration with custom units."""
    a, b, c = rng.sample("dhmstwxyz", 3)
    nb, nc = rng.randint(2, 30), rng.randint(2, 60)
    rest, factor = rng.choice(((a, nb * nc), (b, nc), (c, 1)))
    source = block(f"""
        def duration(text: str) -> int:
            sizes = {{{a!r}: {nb * nc}, {b!r}: {nc}, {c!r}: 1}}
            total = 0
            number = 0
            for sign in text.lstrip("-"):
                if sign.isdigit():
                    number = number * 10 + int(sign)
                else:
                    total += number * sizes[sign]
                    number = 0
            total += number * {factor}
            return -total if text.startswith("-") else total
    """)

    def draw(r: Random) -> Arguments:
        parts = [f"{r.randint(0, 40)}{r.choice((a, b, c))}" for _ in range(r.randint(1, 4))]
        return (r.choice(("", "", "-")) + "".join(parts) + r.choice(("", "", "7", "12")),)

    edges = (("",), ("0" + a,), ("15",), (f"-3{b}",), (f"1{c}1{b}1{a}",), (f"2{b}2{b}09",), (f"-10{a}1",))
    return Function(source, {"a": a, "b": b, "c": c, "nb": nb, "nc": nc, "rest": rest}, draw, edges)


_LEVELS = ("DEBUG", "INFO", "WARN", "ERROR")
_SOURCES = ("db", "web", "auth", "job")


@function(
    Area.PARSING,
    3,
    "Each line of the log is `LEVEL source number`. Skip blank lines and lines that begin with `#`, and look "
    "only at lines of level {levels}. {ask}",
    "The argument is a log with lines `LEVEL source number`, plus blank lines and comments that begin with "
    "`#`, which you should skip. Only lines of level {levels} are of interest. {ask}",
    "Read a log with one entry `LEVEL source number` per line, ignoring empty lines and `#` comments. "
    "Consider only {levels} entries. {ask}",
)
def read_log(rng: Random) -> Function:
    """Filter and summarise a log."""
    levels = rng.sample(_LEVELS, rng.randint(1, 3))
    test, fold, limit = int_test(rng), int_fold(rng, "these numbers"), rng.randint(1, 3)
    ask, code, kind = rng.choice(
        (
            (
                f"Of their numbers, keep those that {test}, and return {fold}.",
                fold.of(f"[n for _, n in entries if {test.of('n')}]"),
                "int",
            ),
            (
                f"Return the sorted list of the sources with at least {count_of(limit, 'such line')}.",
                f"sorted(s for s, many in Counter(s for s, _ in entries).items() if many >= {limit})",
                "list[str]",
            ),
            (
                "Return the sources of these lines without repeats, those with the most lines first, ties by name.",
                "sorted({s for s, _ in entries}, key=lambda s: (-sum(1 for t, _ in entries if t == s), s))",
                "list[str]",
            ),
            (
                f"Return a dict from source to the largest of its numbers that {test}, without sources that have none.",
                f"{{s: max(n for t, n in entries if t == s and {test.of('n')}) for s, n in entries if {test.of('n')}}}",
                "dict[str, int]",
            ),
        )
    )
    source = block(f"""
        from collections import Counter


        def read(log: str) -> {kind}:
            entries = []
            for line in log.splitlines():
                if not line.strip() or line.startswith("#"):
                    continue
                level, source, number = line.split()
                if level in {tuple(levels)!r}:
                    entries.append((source, int(number)))
            return {code}
    """)
    if "Counter" not in code:
        source = source.split("\n", 3)[3]
    edges = (
        ("",),
        ("# INFO db 3\n\nINFO db 4\n",),
        ("ERROR web 5\nERROR web 5\nERROR db 5\nWARN db 8\nINFO web 12\nDEBUG db 5",),
        ("DEBUG job -3\nINFO job 0\nWARN job 7\nERROR job 21\n   \nDEBUG auth 14",),
    )
    words = {"levels": " or ".join(levels), "ask": ask}
    return Function(source, words, _log, edges)


def _log(rng: Random) -> Arguments:
    lines = [f"{rng.choice(_LEVELS)} {rng.choice(_SOURCES)} {rng.randint(-5, 40)}" for _ in range(rng.randint(3, 8))]
    if rng.random() < 0.3:
        lines.insert(rng.randrange(len(lines)), rng.choice(("", "# WARN db 9")))
    return ("\n".join(lines),)


@function(
    Area.PARSING,
    2,
    "The text lists whole numbers and ranges, separated by {sep}: `3{dash}6` means 3, 4, 5 and 6 ({order}), "
    "and an item that begins with `!` removes its numbers again. Items may have spaces around them, and some "
    "may be empty. Sort the numbers that remain, without repeats, and return {fold}.",
    "Expand a list like `1{dash}4{sep_raw}9{sep_raw}!2`: ranges include both ends ({order}), and items with "
    "`!` are excluded wherever they stand. Ignore empty items and spaces. Take the numbers that remain, each "
    "once and in increasing order, and return {fold}.",
    "Read items separated by {sep}. `n` is a number and `n{dash}m` a range that includes both ends "
    "({order}); numbers with `!` in front are excluded, wherever that item stands. Ignore spaces and empty "
    "items. Of the numbers that remain, sorted and without repeats, return {fold}.",
)
def read_ranges(rng: Random) -> Function:
    """Expand ranges."""
    sep, dash, fold = rng.choice(",;|/"), rng.choice(("..", ":", "~", "to")), int_fold(rng, "these numbers")
    swap = rng.random() < 0.5
    order = "if the first is larger, they are swapped" if swap else "none if the first is larger"
    span = "range(min(ends), max(ends) + 1)" if swap else "range(ends[0], ends[-1] + 1)"
    source = block(f"""
        def expand(text: str) -> int:
            wanted, banned = set(), set()
            for item in text.split({sep!r}):
                item = item.strip()
                if not item:
                    continue
                ends = [int(end) for end in item.lstrip("!").split({dash!r})]
                chosen = banned if item.startswith("!") else wanted
                chosen.update({span})
            numbers = sorted(wanted - banned)
            return {fold.of("numbers")}
    """)

    def draw(r: Random) -> Arguments:
        items = []
        for _ in range(r.randint(2, 6)):
            low = r.randint(0, 25)
            item = f"{low}{dash}{low + r.randint(-2, 7)}" if r.random() < 0.6 else str(low)
            items.append(("!" if r.random() < 0.25 else "") + item)
        return (r.choice((sep, sep + " ")).join(items),)

    edges = (
        ("",),
        ("5",),
        (f"!3{sep}3",),
        (f"4{dash}1{sep} {sep}9",),
        (f"1{dash}9{sep}!4{dash}6{sep}2",),
        (f"7{dash}7",),
    )
    words = {"sep": f"`{sep}`", "sep_raw": sep, "dash": dash, "order": order, "fold": fold}
    return Function(source, words, draw, edges)
