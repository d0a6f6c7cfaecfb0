"""Function families about strings: cleaning, shifting, scoring, words, runs."""

from __future__ import annotations

from random import Random

from agentgym.base.choices import count_of
from agentgym.tasks.code.families import Area, Arguments, Function, block, function
from agentgym.tasks.code.material import TEXTS, letters, nth, one_text, sentence
from agentgym.tasks.code.parts import Clause, word_key, word_map, word_test


def _text_step(rng: Random) -> Clause:
    """Draw one transformation of a whole text."""
    a, b, k, cut = (
        rng.choice("aeionr"),
        rng.choice("xyz#_*"),
        rng.randint(2, 5),
        rng.choice(["aeiou", "aeo", "rst", "0123456789", "nlm"]),
    )
    return rng.choice(
        (
            Clause(f"remove every character that is one of {cut!r}", f'"".join(c for c in {{x}} if c not in {cut!r})'),
            Clause("remove all whitespace", '"".join({x}.split())'),
            Clause("convert it to upper case", "{x}.upper()"),
            Clause("convert it to lower case", "{x}.lower()"),
            Clause("swap upper and lower case", "{x}.swapcase()"),
            Clause("reverse it", "{x}[::-1]"),
            Clause(f"replace every {a!r} with {b!r}", f"{{x}}.replace({a!r}, {b!r})"),
            Clause(f"keep every {nth(k)} character, beginning with the first", f"{{x}}[::{k}]"),
            Clause(f"drop the first {k} characters", f"{{x}}[{k}:]"),
            Clause(f"keep only the last {k + 3} characters", f"{{x}}[-{k + 3}:]"),
            Clause(f"put {b!r} between all neighbouring characters", f"{b!r}.join({{x}})"),
            Clause("move the first character to the end", "{x}[1:] + {x}[:1]"),
        )
    )


def _steps(rng: Random, count: int) -> Function:
    steps: list[Clause] = []
    for _ in range(60):
        step = _text_step(rng)
        if len(steps) < count and step not in steps:
            steps.append(step)
    lines = "".join(f"    s = {step.of('s')}\n" for step in steps)
    source = f"def clean(s: str) -> str:\n{lines}    return s\n"
    texts = [step.text for step in steps]
    words = {"first": texts[0], "rest": "; then ".join(texts[1:]), "all": "; ".join(texts)}
    return Function(source, words, one_text, TEXTS)


@function(
    Area.STRINGS,
    1,
    "Take the text s: {first}; then {rest}. Return the result.",
    "Do the following to s, in this order: {all}. Return the result.",
    "Return s after two changes. First {first}. Then {rest}.",
)
def clean_text(rng: Random) -> Function:
    """Transform a text in two steps."""
    return _steps(rng, 2)


@function(
    Area.STRINGS,
    2,
    "Change the text s step by step: {first}; then {rest}. Return the result.",
    "Apply these changes to s, one after the other: {all}. Return the new text.",
    "Normalise the text s. To begin with, {first}; then {rest}. Return the new text.",
)
def text_steps(rng: Random) -> Function:
    """Transform a text in three to five steps."""
    return _steps(rng, rng.randint(3, 5))


@function(
    Area.STRINGS,
    2,
    "Shift the letters of s forward in the alphabet, keeping their case (after z comes a): {which} by "
    "{places}, other letters by {j}. Everything else stays as it is. Letters are a-z and A-Z.",
    "Encrypt s: {which} move {places} forward in the alphabet and all other letters {j}, wrapping from z "
    "to a and keeping their case. Only a-z and A-Z count as letters; other characters are copied.",
    "Return s with {which} replaced by the letter {places} later in the alphabet, and other letters by "
    "the one {other} later, wrapping around and keeping the case. Only ASCII letters count as letters.",
)
def shift_letters(rng: Random) -> Function:
    """Shift letters by two different numbers."""
    k, j = rng.sample(range(25), 2)
    which, test = rng.choice(
        (
            ("vowels (aeiou and AEIOU)", "c in 'aeiouAEIOU'"),
            ("consonants (all letters but aeiou and AEIOU)", "c not in 'aeiouAEIOU'"),
            ("capital letters", "c <= 'Z'"),
            ("letters at even positions of s (counted from 0)", "i % 2 == 0"),
            ("letters whose position in s (counted from 0) is a multiple of 3", "i % 3 == 0"),
            ("letters in the first half of the alphabet (a-m, A-M)", "c.lower() <= 'm'"),
        )
    )
    source = block(f"""
        def shift(s: str) -> str:
            out = []
            for i, c in enumerate(s):
                if c.isascii() and c.isalpha():
                    base = ord("A") if c.isupper() else ord("a")
                    places = {k} if {test} else {j}
                    out.append(chr(base + (ord(c) - base + places) % 26))
                else:
                    out.append(c)
            return "".join(out)
    """)
    edges = (*TEXTS, ("xyz XYZ abc",), ("Hello, World",))
    words = {"places": count_of(k, "place"), "j": j, "other": count_of(j, "place"), "which": which}
    return Function(source, words, one_text, edges)


def _phrase(rng: Random) -> Arguments:
    return (sentence(rng).replace("-", " "),)


@function(
    Area.STRINGS,
    2,
    "Split the text into words at whitespace. Keep the words that {test}, sort them {key}, replace each with "
    "{map}, and join them with {sep}.",
    "Of the words of the text (separated by whitespace), only those that {test} count. Sort them {key}. Then "
    "write {map} for each of them, with {sep} between them, and return the string.",
    "Return one string: the words of the text (split at whitespace) that {test}, sorted {key}, each replaced "
    "with {map}, and joined with {sep}.",
)
def word_pipeline(rng: Random) -> Function:
    """Filter, sort, transform and join words."""
    test, key, change, sep = word_test(rng), word_key(rng), word_map(rng), rng.choice((",", " ", "-", "; ", "/", "+"))
    source = block(f"""
        def arrange(text: str) -> str:
            kept = [w for w in text.split() if {test.of("w")}]
            kept = sorted(kept, key=lambda w: {key.of("w")})
            return {sep!r}.join({change.of("w")} for w in kept)
    """)
    words = {"test": test, "key": key, "map": change.say("the word"), "sep": repr(sep)}
    edges = (("",), ("stone",), ("apple apple level noon",), ("élan Oslo  banana bee we on radar candle stone",))
    return Function(source, words, _phrase, edges)


@function(
    Area.STRINGS,
    3,
    "Compress the text: every run of at least {m} equal characters is written as {say}, where C is the "
    "character and N the length of the run. Shorter runs stay as they are. Runs of a character in {drop} are "
    "left out. Put {sep} between the runs{case}",
    "Return s as its runs of equal characters: a run of {m} or more becomes {say} (C is the character, N the "
    "length of the run), a shorter run is copied, and runs of characters in {drop} are dropped. "
    "Put {sep} between neighbouring runs{case}",
    "Return a run-length encoding of s. Runs of length N >= {m} of a character C turn into {say}; other runs "
    "are not changed, but runs of any character in {drop} disappear. The result has {sep} "
    "between runs{case}",
)
def run_lengths(rng: Random) -> Function:
    """Encode the runs of a text."""
    m, sep, mark = rng.randint(2, 4), rng.choice(("", "", ",", " ", "|", "-", "/")), rng.choice("*:^~=")
    say, code = rng.choice(
        (
            ("CN", "c + str(n)"),
            ("NC", "str(n) + c"),
            (f"C{mark}N", f"c + {mark!r} + str(n)"),
            (f"N{mark}C", f"str(n) + {mark!r} + c"),
            ("(NC)", '"(" + str(n) + c + ")"'),
        )
    )
    case, text = rng.choice((("c", ""), ("c.lower()", " Convert the text to lower case before anything else.")))
    drop = "".join(sorted(rng.sample("abc1xyz- ", rng.randint(1, 2))))
    runs = "groupby(s)" if case == "c" else "groupby(s.lower())"
    source = block(f"""
        from itertools import groupby


        def pack(s: str) -> str:
            out = []
            for c, run in {runs}:
                n = len(list(run))
                if c in {drop!r}:
                    continue
                out.append({code} if n >= {m} else c * n)
            return {sep!r}.join(out)
    """)
    edges = (("",), ("a",), ("aaaa",), ("aAaabbBB",), ("abcabc",), ("ééé  11111",))
    return Function(
        source,
        {"m": m, "say": f"`{say}`", "sep": repr(sep) if sep else "nothing", "case": f".{text}", "drop": repr(drop)},
        lambda r: (letters(r, "aaAbBc1", 4, 18),),
        edges,
    )


@function(
    Area.STRINGS,
    2,
    "Score the text: each vowel (aeiou, either case) is worth {v}, every other letter (by `str.isalpha`) "
    "{c}, each digit (by `str.isdigit`) {d}, and anything else {o}. A character equal to the one right "
    "before it is worth {twin} instead. Return the sum.",
    "Return the sum of the points for all characters of s: {v} for a vowel (aeiouAEIOU), {c} for another "
    "letter (`str.isalpha`), {d} for a digit (`str.isdigit`), {o} for the rest; but {twin} for a character "
    "that repeats the one directly before it.",
    "Give points to the characters of s and return the total. A character that repeats the preceding one "
    "gets {twin}. Otherwise, vowels (aeiou in either case) get {v}, other letters (`isalpha`) {c}, digits "
    "(`isdigit`) {d}, and everything else {o}.",
)
def char_score(rng: Random) -> Function:
    """Score the characters of a text."""
    v, c, d, o, twin = rng.sample(range(-3, 12), 5)
    source = block(f"""
        def score(s: str) -> int:
            total = 0
            last = None
            for c in s:
                if c == last:
                    total += {twin}
                elif c in "aeiouAEIOU":
                    total += {v}
                elif c.isalpha():
                    total += {c}
                elif c.isdigit():
                    total += {d}
                else:
                    total += {o}
                last = c
            return total
    """)
    words = {"v": v, "c": c, "d": d, "o": o, "twin": twin}
    edges = (*TEXTS, ("aaaAAA",), ("11  22!!",))
    return Function(source, words, lambda r: (letters(r, "aeioubcdAEBC1234  !?", 3, 16),), edges)


@function(
    Area.STRINGS,
    4,
    "Each character of {some!r} is worth {p}, and any other {q}. Return the substring of s with at most "
    "{different}{extra} that is worth most. Of several, take the one that starts {which}, and of "
    "those the {length}; if there is none, return the empty string.",
    "Find the substring of s with no more than {distinct}{extra} that scores highest: {p} for "
    "each of {some!r} and {q} for every other character. On ties take the {which} start, then the {length} "
    "one; return '' if nothing qualifies.",
    "Among the substrings of s that use at most {different}{extra}, return the one with the "
    "largest sum of points ({p} for a character in {some!r}, {q} for others). If several tie, take the one "
    "starting {which}, and of these the {length}. Return the empty string if there is none.",
)
def best_stretch(rng: Random) -> Function:
    """Find the best substring under a rule."""
    k, first, bad = rng.randint(1, 3), rng.random() < 0.5, rng.choice(("", "x", "e", "n", "y", "xy"))
    p, q = rng.sample(range(-2, 8), 2)
    scored = "".join(sorted(rng.sample("abenxy", rng.randint(2, 3))))
    check = f" or set(part) & set({bad!r})" if bad else ""
    source = block(f"""
        def stretch(s: str) -> str:
            best, most = "", None
            for start in range(len(s)):
                for end in range(start + 1, len(s) + 1):
                    part = s[start:end]
                    if len(set(part)) > {k}{check}:
                        continue
                    score = sum({p} if c in {scored!r} else {q} for c in part)
                    if most is None or score {">" if first else ">="} most:
                        best, most = part, score
            return best
    """)
    words: dict[str, object] = {
        "different": count_of(k, "different character"),
        "distinct": count_of(k, "distinct character"),
    }
    words |= {"extra": f" and none of {bad!r}" if bad else "", "p": p, "q": q, "some": scored}
    words |= {"which": "first", "length": "shortest"} if first else {"which": "last", "length": "longest"}
    edges = (("",), ("x",), ("aabbccdd",), ("exnexnexn",), ("ééaaéébb",))
    return Function(source, words, lambda r: (letters(r, "abenxy", 4, 12),), edges)


@function(
    Area.STRINGS,
    3,
    "Split the text at whitespace and number the words from 1. Every word whose number is a multiple of {k} "
    "is replaced with {hit}, the words right after those with {after}, and all others stay. Return them joined "
    "with single spaces.",
    "Change the words of the text (split at whitespace, counted from 1): words {k}, {k2}, {k3} and so on "
    "become {hit}, the word that follows each of them becomes {after}, and the rest stay the same. Return "
    "them joined with single spaces.",
    "Go through the words of the text, split at whitespace. If the position (from 1) is divisible by {k}, "
    "write {hit}; if the position before it is (and is not 0), write {after}; otherwise copy the word. "
    "Return the words separated by one space.",
    held_out=True,
)
def word_positions(rng: Random) -> Function:
    """Transform words by their position."""
    k, hit, after = rng.randint(2, 5), word_map(rng), word_map(rng)
    source = block(f"""
        def rewrite(text: str) -> str:
            out = []
            for i, w in enumerate(text.split(), 1):
                if i % {k} == 0:
                    w = {hit.of("w")}
                elif i % {k} == 1 and i > 1:
                    w = {after.of("w")}
                out.append(w)
            return " ".join(out)
    """)
    words = {"k": k, "k2": 2 * k, "k3": 3 * k, "hit": hit.say("the word"), "after": after.say("the word")}
    edges = (("",), ("stone",), ("a b c d e f g h i j k l",), ("  naïve   fox on Oslo radar tiger  ",), ("x y",))
    return Function(source, words, lambda r: (" ".join(sentence(r) for _ in range(2)),), edges)
