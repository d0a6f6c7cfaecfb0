"""Other values for the constants of a test: wrong, but otherwise like the true ones.

A value may come from the same test, from the same module, or from a small edit in either direction. A drawn value has
the type and about the size of the true value, and occurs elsewhere in the test or module as often as a true one does.
Nothing here knows the right values: whether a changed test fails is measured (`calibration`).
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

Value = bool | int | float | str | bytes

_TOKENS = re.compile(r"\d+|[^\W\d_]+|\s+|.", re.DOTALL)
_USUAL, _UNUSUAL = 4, 1
"""Weights of values that occur as often as the true one, and of other values."""


@dataclass(frozen=True)
class Pools:
    """The constants near a place, each as often as it occurs."""

    function: Sequence[Value]
    module: Sequence[Value]


def changeable(value: object) -> bool:
    """Whether there are other values like this one."""
    return isinstance(value, bool | int | float | str | bytes) and value == value


def others(value: Value, pools: Pools, rng: random.Random) -> Iterator[Value]:
    """Yield different values like this one, each once, in random order."""
    if isinstance(value, bool):
        yield not value
        return
    near = [other for other in pools.function if type(other) is type(value)]
    wide = [other for other in pools.module if type(other) is type(value)]
    here, anywhere = Counter(near)[value] > 1, Counter(wide)[value] > 1
    sources = [
        (_USUAL if here else _UNUSUAL, [other for other in near if _alike(value, other)]),
        (_USUAL if anywhere and not here else _UNUSUAL, [other for other in wide if _alike(value, other)]),
        (_UNUSUAL if here else _USUAL, list(_edited(value, near, wide, rng))),
    ]
    yielded: set[Value] = {value}
    for _, pool in sources:
        rng.shuffle(pool)
    while nonempty := [source for source in sources if source[1]]:
        _, pool = rng.choices(nonempty, [weight for weight, _ in nonempty])[0]
        other = pool.pop()
        if other not in yielded:
            yielded.add(other)
            yield other


def _alike(value: Value, other: Value) -> bool:
    """Whether another value could replace this one without looking odd."""
    if isinstance(value, bytes | str):
        assert isinstance(other, bytes | str)
        return len(other) <= 2 * len(value) + 4 and len(value) <= 2 * len(other) + 4 and _kind(value) == _kind(other)
    assert isinstance(other, int | float)
    return other >= 0 and abs(other - value) <= max(10, 2 * abs(value))


def _kind(text: str | bytes) -> tuple[bool, ...]:
    words = text.decode("latin-1") if isinstance(text, bytes) else text
    return any(c.isalpha() for c in words), any(c.isdigit() for c in words), "\n" in words, " " in words.strip()


def _edited(value: Value, near: Sequence[Value], wide: Sequence[Value], rng: random.Random) -> Iterator[Value]:
    if isinstance(value, bytes):
        plain = [[other.decode("latin-1") for other in pool if isinstance(other, bytes)] for pool in (near, wide)]
        for text in _edited_texts(value.decode("latin-1"), plain[0], plain[1], rng):
            yield text.encode("latin-1", "replace")
    elif isinstance(value, str):
        texts = [[other for other in pool if isinstance(other, str)] for pool in (near, wide)]
        yield from _edited_texts(value, texts[0], texts[1], rng)
    elif isinstance(value, float):
        yield from _edited_floats(value)
    else:
        yield from _edited_numbers(value)


def _edited_numbers(value: int) -> Iterator[int]:
    """Yield neighbours on both sides, as an off-by-one error or a typo in one digit would produce them."""
    steps = (1, 2, 3) if value < 20 else (1, 2, 3, 10)
    yield from (value + sign * step for step in steps for sign in (1, -1) if value + sign * step >= 0)
    digits = str(value)
    for at in range(len(digits) - 1):
        swapped = digits[:at] + digits[at + 1] + digits[at] + digits[at + 2 :]
        if swapped[0] != "0":
            yield int(swapped)


def _edited_floats(value: float) -> Iterator[float]:
    """Yield values that differ in one of the written digits, by more than any usual tolerance."""
    places = len(repr(value).partition(".")[2]) if "e" not in repr(value) else 6
    for place in {0, *range(max(1, places - 1), min(places, 3) + 1)}:
        for step in (1, -1, 2, -2):
            other = round(value + step * 10.0**-place, max(1, places))
            if other >= 0 and abs(other - value) > 1e-3 * abs(value):
                yield other


def _edited_texts(text: str, near: Sequence[str], wide: Sequence[str], rng: random.Random) -> Iterator[str]:
    """Yield texts with another number, another word, or two of them swapped."""
    tokens = _TOKENS.findall(text)
    variants = list(_renumbered(tokens)) + list(_reworded(tokens, near, 3)) + list(_reordered(tokens))
    if len(variants) < 8:
        variants += _reworded(tokens, wide, 2)
    if len(variants) < 4:
        variants += _respelt(tokens, [*near, *wide], rng)
    yield from dict.fromkeys(variants)


def _with(tokens: Sequence[str], at: int, new: str) -> str:
    return "".join((*tokens[:at], new, *tokens[at + 1 :]))


def _renumbered(tokens: Sequence[str]) -> Iterator[str]:
    for at, token in enumerate(tokens):
        if token.isdecimal() and len(token) <= 18:
            for number in _edited_numbers(int(token)):
                new = str(number).zfill(len(token) if token[0] == "0" else 1)
                if len(new) == len(token):
                    yield _with(tokens, at, new)


def _reworded(tokens: Sequence[str], pool: Sequence[str], slack: int) -> Iterator[str]:
    words = [word for text in dict.fromkeys(pool) for word in _TOKENS.findall(text) if word.isalpha()]
    for at, token in enumerate(tokens):
        if token.isalpha():
            for word in dict.fromkeys(words):
                if word != token and abs(len(word) - len(token)) <= slack and _case(word) == _case(token):
                    yield _with(tokens, at, word)


def _case(word: str) -> tuple[bool, bool]:
    return word.islower(), word.isupper()


def _reordered(tokens: Sequence[str]) -> Iterator[str]:
    places = [at for at, token in enumerate(tokens) if token.isalnum()]
    for first, second in pairwise(places):
        if tokens[first] != tokens[second] and tokens[first].isdecimal() == tokens[second].isdecimal():
            changed = list(tokens)
            changed[first], changed[second] = changed[second], changed[first]
            yield "".join(changed)


def _respelt(tokens: Sequence[str], pool: Sequence[str], rng: random.Random) -> Iterator[str]:
    """Yield texts with one letter or sign replaced by another of the suite's, for texts with little else to change."""
    signs = sorted({sign for text in pool for sign in text})
    for at, token in enumerate(tokens):
        place = rng.randrange(len(token))
        old = token[place]
        for new in rng.sample(signs, min(12, len(signs))):
            same = (new.isalpha(), new.isupper(), new.isdecimal(), new.isspace())
            if new != old and same == (old.isalpha(), old.isupper(), old.isdecimal(), old.isspace()):
                yield _with(tokens, at, token[:place] + new + token[place + 1 :])
