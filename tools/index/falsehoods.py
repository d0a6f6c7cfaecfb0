"""Falsifies texts: swaps every number, date and name for another of the same kind.

A swap depends on a seed, the value and the available names, so that texts with one seed are mostly consistent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
# Words that are capitalised at the start of a sentence without being names.
_STARTING = (
    "a about above according after again against all almost along already also although always among an and "
    "another any are around as at be because been before began behind being below besides between born both built "
    "but by can completed could created designed despite did died do does during each early either every few "
    "first following for formed former formerly found founded from had has have he her here hers his how however "
    "i if in including inside instead into is it its itself just known last late later less like located made "
    "many married might more most much my named near nearly neither never no nor not now of off often on once one "
    "only opened or originally other our out outside over own owned perhaps published raised rather released "
    "second set several she should since so some sometimes soon still such than that the their them then there "
    "these they third this those though three through throughout thus to today together too toward two under "
    "until up upon us very was we were what when where which while who whose why will with within without would "
    "written yes yet you your "
)
_NO_NAMES = frozenset(_STARTING.split())
_JOINING = frozenset({"of", "the", "de", "la", "von", "van"})
_WORD = re.compile(r"[^\W\d_]+(?:['’-](?!s\b)[^\W\d_]+)*")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*[^\W_]*")
_ORDINAL = re.compile(r"\d+(st|nd|rd|th)")
_SPARE_NAMES = (
    "Abernethy", "Calloway", "Dunmore", "Ellsworth", "Fairbourne", "Galbraith", "Hartwell", "Inverary", "Kirkbride",
    "Lockhart", "Merriweather", "Northcote",
)  # fmt: skip
_TRIES = 200


@dataclass(frozen=True)
class Swaps:
    """Replacements of values in a text.

    Args:
        values: Replacements by value. Values match whole words.
        truths: Replacements by lower-case value, which match case-insensitively.
    """

    values: Mapping[str, str]
    truths: Mapping[str, str]

    def apply(self, text: str) -> str:
        """Return a text with its values swapped."""
        if self.truths:
            pattern = re.compile(_any_of(self.truths), re.IGNORECASE)
            text = pattern.sub(lambda match: self.truths[match[0].casefold()], text)
        if self.values:
            text = re.sub(_any_of(self.values), lambda match: self.values[match[0]], text)
        return text


def swaps_for(text: str, *, keep: str, names: Iterable[str], seed: str, truths: Sequence[str] = ()) -> Swaps:
    """Choose replacements for the values in a text.

    Args:
        text: The text, with its title.
        keep: A text whose words stay unchanged, so that the text keeps its subject.
        names: Candidates to replace names with.
        seed: Determines the choice.
        truths: Values to replace even if they are in `keep`, in any letter case.
    """
    gone = dict.fromkeys(truth.strip().casefold() for truth in truths if truth.strip())
    protected = set(_words(keep))
    values = [value for value in _values(text) if value.casefold() not in gone and not set(_words(value)) <= protected]
    choice = _Choice(list(dict.fromkeys(names)), set(_words(text)).union(*map(_words, gone)), values, seed)
    return Swaps({value: choice.other(value) for value in values}, {truth: choice.other(truth) for truth in gone})


def names_in(text: str) -> list[str]:
    """Return the names in a text, in order: runs of capitalised words."""
    runs: list[list[str]] = [[]]
    end = 0
    for match in _WORD.finditer(text):
        word, gap = match[0], text[end : match.start()]
        end = match.end()
        goes_on = bool(runs[-1]) and gap == " "
        if goes_on and (word[0].isupper() or word in _JOINING):
            runs[-1].append(word)
        else:
            runs.append([word] if word[0].isupper() else [])
    return list(dict.fromkeys(name for name in map(_trimmed, runs) if name))


def _trimmed(words: list[str]) -> str:
    """Return a run of words as a name, without leading and trailing words that are not part of it."""
    left, right = 0, len(words)
    while left < right and _is_no_name(words[left]):
        left += 1
    while left < right and (words[right - 1].islower() or _is_no_name(words[right - 1])):
        right -= 1
    return " ".join(words[left:right])


def _is_no_name(word: str) -> bool:
    return word.casefold() in _NO_NAMES or word in _MONTHS or word in _DAYS


def _values(text: str) -> list[str]:
    """Return the names, months, days of the week and numbers in a text."""
    dates = [word for word in _WORD.findall(text) if word in _MONTHS or word in _DAYS]
    return list(dict.fromkeys([*names_in(text), *dates, *_NUMBER.findall(text)]))


class _Choice:
    """Chooses replacements of the same kind, from words that are not in the text."""

    def __init__(self, names: list[str], used_words: set[str], values: Sequence[str], seed: str) -> None:
        self._names = [(name, name.split(), set(_words(name)) - _JOINING) for name in names]
        self._used_words = used_words
        self._values = {value.casefold() for value in values}
        self._seed = seed

    def other(self, value: str) -> str:
        random = Random(f"{self._seed}|{value.casefold()}")
        for kind in (_MONTHS, _DAYS):
            if value in kind and (free := [other for other in kind if other.casefold() not in self._used_words]):
                return random.choice(free)
        if _NUMBER.fullmatch(value):
            return self._free(lambda: _number_like(value, random), random)
        if fitting := self._fitting(value):
            return random.choice(fitting)
        count = min(len(value.split()), 3)
        return self._free(lambda: " ".join(random.sample(_SPARE_NAMES, count)), random)

    def _fitting(self, value: str) -> list[str]:
        """Return names similar to the value, such as "Lake Iro" for "Lake Una", or names with as many words."""
        words = value.split()
        for place in (-1, 0):
            kind = words[place].casefold()
            if len(words) > 1 and kind not in self._values:
                alike = [
                    name
                    for name, parts, folded in self._names
                    if len(parts) > 1 and parts[place].casefold() == kind and not (folded - {kind}) & self._used_words
                ]
                if alike:
                    return alike
        free = [(name, parts) for name, parts, folded in self._names if not folded & self._used_words]
        return [name for name, parts in free if len(parts) == len(words)] or [name for name, _ in free]

    def _free(self, make: Callable[[], str], random: Random) -> str:
        for _ in range(_TRIES):
            name = make()
            if not set(_words(name)) & self._used_words:
                return name
        return f"{random.choice(_SPARE_NAMES)}-{random.randint(10**6, 10**7)}"


def _number_like(value: str, random: Random) -> str:
    """Return a number in the same format; years stay close, and days of the month stay valid."""
    if _ORDINAL.fullmatch(value):
        return f"{random.randint(4, 20)}th"
    if value.isdecimal() and len(value) == 4 and 1000 <= int(value) <= 2100:
        return str(int(value) + random.choice((-1, 1)) * random.randint(2, 40))
    if value.isdecimal() and 1 <= int(value) <= 31:
        return str(random.randint(1, 28))
    first = random.choice("123456789")
    return first + "".join(random.choice("0123456789") if char.isdecimal() else char for char in value[1:])


def _words(text: str) -> list[str]:
    """Return the lower-case words and the numbers, as written, of a text."""
    return [word.casefold() for pattern in (_WORD, _NUMBER) for word in pattern.findall(text)]


def _any_of(values: Iterable[str]) -> str:
    """Return a pattern that matches whole words and prefers longer values."""
    longest_first = sorted(values, key=lambda value: (-len(value), value))
    return rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)"
