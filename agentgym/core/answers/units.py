"""Units of quantities: which words name the same unit, and which ones a question names."""

from __future__ import annotations

import re

from agentgym.core.answers.numbers import SCALES
from agentgym.core.answers.texts import fold

_SAME: dict[str, str] = {
    word: names.split()[0]
    for names in (
        "percent percentage pct %",
        "dollar $ usd buck",
        "euro € eur",
        "pound £ gbp lb",
        "yen ¥ jpy",
        "rupee ₹ inr rs",
        "cent ¢",
        "year yr",
        "month mo",
        "hour hr h",
        "minute min",
        "second sec",
        "millisecond ms",
        "kilometre kilometer km",
        "metre meter m",
        "centimetre centimeter cm",
        "millimetre millimeter mm",
        "mile mi",
        "foot feet ft",
        "inch",
        "kilogram kg kilo",
        "gram g",
        "tonne ton",
        "litre liter l",
        "square sq",
        "degree °",
        "celsius c",
        "fahrenheit f",
        "person people inhabitant resident",
        "child children",
        "man men",
        "woman women",
    )
    for word in names.split()
}
_CURRENCIES = frozenset({"dollar", "euro", "pound", "yen", "rupee"})
_MONEY = (
    "award bill budget charge cost debt donate earn earning expense fee fund gross income invest loan "
    "money owe paid pay payment price prize profit revenue salary save saving sell sold spend spent wage "
    "worth"
)
_SILENT = frozenset(
    ["a", "an", "the", "of", "in", "on", "per", "us", "total", "altogether", "left", "old", "more", "each", "about"]
)
"""Words of a unit that decide nothing."""
_RESPELLED = (
    (re.compile(r"\bper cent\b"), "percent"),
    (re.compile(r"\bus ?\$"), "$"),
    (re.compile(r"\bmph\b"), "miles per hour"),
    (re.compile(r"\b(?:km/h|kmh|kph)\b"), "kilometres per hour"),
    (re.compile(r"\bm/s\b"), "metres per second"),
    (re.compile(r"(?<=[a-z])(?:²|\^2)"), "2"),
    (re.compile(r"(?<=[a-z])(?:³|\^3)"), "3"),
)
_TOKEN = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+|[23](?!\d))?|[%$€£¥₹¢°]")


def same_unit(left: str, right: str) -> bool:
    """Whether two units are the same in other words or signs."""
    return _words(left) == _words(right)


def is_named(answer: str, gold: str, question: str) -> bool:
    """Whether a question names the unit that just one of an answer and a gold states, or the part that one leaves out.

    A question names its words, the signs and abbreviations of the same units, years for an age, persons for a
    population, and a currency for a price if it names no other.
    """
    some, all_words = sorted((set(_words(answer)), set(_words(gold))), key=len)
    return some < all_words and all_words - some <= units_in(question)


def units_in(question: str) -> frozenset[str]:
    """Return the words of a question in the form of units, and the units that it implies."""
    words = frozenset(_words(question, silent=frozenset()))
    if words & {"old", "age", "aged", "older", "younger"}:
        words |= {"year"}
    if "population" in words:
        words |= {"person"}
    if not words.isdisjoint(_MONEY.split()) and not words & _CURRENCIES:
        words |= _CURRENCIES
    return words


def scales_in(question: str) -> list[int]:
    """Return the factors of the scales that a question asks for, as in `how many million people`."""
    words = _words(question)
    return [factor for name, factor in SCALES.items() if name in words]


def _words(text: str, silent: frozenset[str] = _SILENT) -> tuple[str, ...]:
    lowered = fold(text).casefold()
    for pattern, spelling in _RESPELLED:
        lowered = pattern.sub(spelling, lowered)
    tokens = _TOKEN.findall(lowered)
    return tuple(_singular(token.removesuffix("'s")) for token in tokens if token not in silent)


def _singular(word: str) -> str:
    for ending, replacement in (("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("ss", "ss"), ("s", "")):
        if word not in _SAME and len(word) > 2 and word.endswith(ending):
            word = word.removesuffix(ending) + replacement
            break
    return _SAME.get(word, word)
