"""Compares numbers, and reads them as people write them, alone or with a unit."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import NamedTuple

from agentgym.core.answers.texts import fold

RELATIVE = 1e-9
"""Doubles may differ by this share: sums in another order do, a sum without one of its rows seldom does."""
SINGLE_RELATIVE = 1e-6
"""The same for single precision, which holds about seven digits."""
AT_ZERO = 1e-9
"""The largest number that equals 0, as what remains of a sum that cancels out. No other number has such a floor."""
_WHOLE_BELOW, _SINGLE_WHOLE_BELOW = 2.0**53, 2.0**24
"""Below these bounds, floats hold and add whole numbers exactly, so different whole numbers are never equal."""
_HALF = Fraction(5_000_001, 10_000_000)
"""Half a unit of the last decimal, and a little more: halves are rounded up, down or to even."""
MAX_CHARS = 1_000
"""Longer texts are not read as numbers."""

Number = int | float | Decimal | Fraction
Exact = int | Decimal | Fraction


class Single(float):
    """A number of single precision."""

    __slots__ = ()


def same_number(left: Number, right: Number) -> bool:
    """Whether two numbers are equal, whatever their types.

    Whole numbers, decimals and fractions are compared exactly. A float equals a number within `RELATIVE` of it
    (`SINGLE_RELATIVE` for a `Single`), but never a different whole number: beyond 2**53, where floats no longer hold
    every whole number, a float equals just the one that it holds. Nothing but 0 is near 0 (`AT_ZERO`). NaN equals NaN.
    """
    if not isinstance(left, float) and not isinstance(right, float):
        return _is_quiet(left) and _is_quiet(right) and left == right
    try:
        mine, theirs = float(left), float(right)
    except (OverflowError, ValueError):  # a number that no float can hold, or a signalling NaN
        return False
    if left == right or (math.isnan(mine) and math.isnan(theirs)):
        return True
    if not (math.isfinite(mine) and math.isfinite(theirs)):
        return False
    if not mine or not theirs:
        return abs(mine - theirs) <= AT_ZERO
    is_single = isinstance(left, Single) or isinstance(right, Single)
    whole = [number for number in (left, right) if not isinstance(number, float) and number == int(number)]
    if whole and not is_single and (abs(whole[0]) > _WHOLE_BELOW or abs(mine - theirs) >= 0.5):
        return False
    bound = _SINGLE_WHOLE_BELOW if is_single else _WHOLE_BELOW
    if mine.is_integer() and theirs.is_integer() and mine != theirs and max(abs(mine), abs(theirs)) <= bound:
        return False
    return math.isclose(mine, theirs, rel_tol=SINGLE_RELATIVE if is_single else RELATIVE, abs_tol=0.0)


def is_rounded(value: Number, exact: Number, fewest: int, decimals: int | None = None) -> bool:
    """Whether `value` is `exact` rounded to `fewest` or more decimals. Nothing but 0 is rounded to 0.

    Args:
        value: The number that may be rounded; an `int` has no decimals.
        exact: The number before rounding.
        fewest: Lowest number of decimals that rounding may keep.
        decimals: Number of decimals that `value` is written with; by default those of its shortest form, or `fewest`
            if that is more, because 2.5 may be 2.50.
    """
    if (isinstance(value, int) and fewest) or not value or not _is_finite(value) or not _is_finite(exact):
        return False
    if decimals is None:
        decimals = max(fewest, _decimals_of(value))
    try:
        if decimals < fewest or abs(float(value) - float(exact)) > 0.51 * 10.0**-fewest:
            return False
    except OverflowError:  # a number that no float can hold
        return False
    return abs(Fraction(value) - Fraction(exact)) <= _HALF / 10**decimals


class Quantity(NamedTuple):
    """A number with the unit that is written with it."""

    value: Exact
    decimals: int
    """Number of decimals that it is written with."""
    unit: str = ""
    """The words and signs around the number, in lower case."""


_SIGN, _DIGITS = r"[+-]?", r"(?:[1-9]\d{0,2}(?:,\d{3})+|0(?!\d)|[1-9]\d*)"
_NUMERAL = re.compile(
    rf"(?P<whole>{_DIGITS})\s+(?P<over>\d+)/(?P<under>[1-9]\d*)(?![\d.,/])"
    rf"|(?P<top>{_DIGITS})\s*/\s*(?P<bottom>[1-9]\d*)(?![\d.,/])"
    rf"|(?:{_DIGITS}(?:\.\d*)?|\.\d+)(?:e[+-]?\d{{1,3}})?(?![\d/]|[.,:-]\d)"
)
_CURRENCY = r"(?:us\s?\$|[$€£¥₹]|(?:usd|eur|gbp|jpy|inr|rs\.?)\s)"
_BEFORE = re.compile(rf"({_SIGN})(?:\s*({_CURRENCY})\s*)?({_SIGN})")
_NAMES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_SMALL = {name: number for number, name in enumerate(_NAMES.split())}
_TENS = {
    name: 10 * number
    for number, name in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], start=2
    )
}
SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_NEGATIVE, _ONE = re.compile("^(?:minus|negative) "), re.compile(f"^an? (?=(?:{'|'.join(SCALES)})\\b)")
_HEDGES = frozenset(
    ["and", "at", "either", "least", "most", "no", "nor", "not", "or", "plus", "than", "though", "to", "versus", "vs"]
)
"""Words after a number that make it something other than a number with a unit."""
_POWER = re.compile(r"(?<=[a-z])\^?[23](?!\d)")
_WORD = re.compile(r"[a-z]+")
_NOT_UNITS = frozenset({*_HEDGES, *_SMALL, *_TENS, *SCALES})
_JOINED = re.compile(r"\s*-\s*|\s+(?:and\s+)?")


def read_number(text: str) -> Exact | None:
    """Return the number that the whole text states, in digits or English words, or `None`."""
    quantity = read_quantity(text)
    return None if quantity is None or quantity.unit else quantity.value


def read_quantity(text: str) -> Quantity | None:
    """Return the number that begins the text, with the words and signs around it as its unit, or `None`.

    Thousands are separated by commas or not at all: `1,203,000` is read, `3,5` and `12,34` are not. Digits do not begin
    with a surplus 0. Fractions (`3/4`, `1 1/2`), scientific notation, words (`seventy-eight`, `2.5 million`), currency
    signs before the number and every kind of minus are read. A text with a second number is not a quantity.
    """
    if len(text) > MAX_CHARS:
        return None
    words = " ".join(fold(text).casefold().split())
    words = _ONE.sub("one ", _NEGATIVE.sub("-", words.removesuffix(".").rstrip()))
    before = _BEFORE.match(words)
    assert before is not None, "every part of the pattern is optional"
    sign, currency, second_sign = before.groups()
    if sign and second_sign:
        return None
    start, is_negative = before.end(), "-" in (sign, second_sign)
    numeral = _NUMERAL.match(words, start)
    if numeral is not None:
        value, decimals, end = _value_of(numeral), _decimals_in(numeral[0]), numeral.end()
    elif (spelled := _spelled(words, start)) is not None:
        (value, end), decimals = spelled, 0
    else:
        return None
    if value is None:
        return None
    scale = _JOINED.match(words, end) if numeral is not None else None
    while scale is not None and (name := _WORD.match(words, scale.end())) is not None and name[0] in SCALES:
        value, end = _scaled(value, SCALES[name[0]]), name.end()
        decimals = max(0, decimals - len(str(SCALES[name[0]])) + 1)
        scale = _JOINED.match(words, end)
    rest = words[end:]
    others = set(_WORD.findall(rest))
    if any(character.isdecimal() for character in _POWER.sub("", rest)) or not others.isdisjoint(_NOT_UNITS):
        return None
    unit = " ".join(part for part in ((currency or "").strip(), rest.strip(" ,")) if part)
    return Quantity(_negated(value) if is_negative else value, decimals, unit)


def _value_of(numeral: re.Match[str]) -> Exact | None:
    if numeral["under"] is not None:
        return int(numeral["whole"].replace(",", "")) + Fraction(int(numeral["over"]), int(numeral["under"]))
    if numeral["bottom"] is not None:
        return Fraction(int(numeral["top"].replace(",", "")), int(numeral["bottom"]))
    digits = numeral[0].replace(",", "")
    try:
        return int(digits) if digits.isdecimal() else Decimal(digits)
    except (InvalidOperation, ValueError):
        return None


def _decimals_in(numeral: str) -> int:
    digits, _, exponent = numeral.partition("e")
    return max(0, len(digits.partition(".")[2]) - int(exponent or 0))


def _negated(value: Exact) -> Exact:
    return value.copy_negate() if isinstance(value, Decimal) else -value  # `-` would round a Decimal


def _scaled(value: Exact, factor: int) -> Exact:
    scaled = Fraction(value) * factor
    return int(scaled) if scaled == int(scaled) else scaled


def _spelled(words: str, start: int) -> tuple[int, int] | None:
    """Return the longest number in English words from `start`, and where it ends."""
    total = group = 0
    end, last = None, ""
    place = start
    while (name := _WORD.match(words, place)) is not None:
        word = name[0]
        if word in _SMALL and (last in ("", "scale") or (last == "tens" and 0 < _SMALL[word] < 10)):
            group, last = group + _SMALL[word], "small"
        elif word in _TENS and last in ("", "scale"):
            group, last = group + _TENS[word], "tens"
        elif word in SCALES and (last or word == "hundred"):
            if word == "hundred" and 0 < group < 100:
                group *= 100
            elif word != "hundred" and group:
                total, group = total + group * SCALES[word], 0
            else:
                break
            last = "scale"
        else:
            break
        end = name.end()
        joined = _JOINED.match(words, end)
        if joined is None:
            break
        place = joined.end()
    return None if end is None else (total + group, end)


def _decimals_of(value: Number) -> int:
    """Return the number of decimals of a number's shortest form."""
    if isinstance(value, Fraction):
        return 0
    shortest = Decimal(repr(float(value))).normalize() if isinstance(value, float) else Decimal(value)
    exponent = shortest.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _is_finite(value: Number) -> bool:
    return isinstance(value, int | Fraction) or math.isfinite(value)


def _is_quiet(value: Number) -> bool:
    return not isinstance(value, Decimal) or not value.is_snan()
