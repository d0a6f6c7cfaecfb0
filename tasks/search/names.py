"""Invented names: a few made-up tongues, and a partition of all words that no two splits share.

A word belongs to the residue of the sum of its letters. Every split of every nearby world uses its own residue, so the
names of two splits are disjoint, whatever was drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from random import Random

from agentgym.core.task import TEST, TRAIN, VALIDATION

SPLITS = (TRAIN, VALIDATION, TEST)
WORLDS_APART = 20
"""Worlds of a split share no word if their numbers differ by less than this."""
_RESIDUES = len(SPLITS) * WORLDS_APART


class NameShape(StrEnum):
    """The ending of a word: open (in a vowel), closed, or either."""

    OPEN = "open"
    CLOSED = "closed"
    ANY = "any"


@dataclass(frozen=True)
class Tongue:
    """The sounds of a made-up language."""

    onsets: tuple[str, ...]
    vowels: tuple[str, ...]
    codas: tuple[str, ...]
    """Consonants that may close a syllable; in a language without any, all words end in vowels."""


def _tongue(onsets: str, vowels: str, codas: str) -> Tongue:
    return Tongue(tuple(onsets.split()), tuple(vowels.split()), tuple(codas.split()))


TONGUES = (
    _tongue("b br d f fr g gr h j k l m n r s sk st t tr v", "a e i o u y ö", "n r l s k rd ld nd m lm"),
    _tongue("b c d f g l m n p r s t v z qu br tr", "a e i o u ia io é", "n r l s"),
    _tongue("b d g kh k m n s sh t y z zh ch", "a e i o u ai", "n r l k t sh z m"),
    _tongue("h k l m n p t w r s v", "a e i o u ai au oa ei ao", ""),
    _tongue("br c d g gw l ll m n p rh t tr f", "a e i o y w", "n r th dd s l nt rn"),
    _tongue("b ch d dr g k kr l m n p pr r s st t v z zl", "a e i o u", "v k l n r sk t"),
)


class WordSource:
    """Draws words of one residue, each at most once.

    Args:
        rng: The source of randomness.
        residue: Residue that the letters of every word add up to.
    """

    def __init__(self, rng: Random, residue: int):
        self._rng, self._residue = rng, residue
        self._taken: set[str] = set()

    def new(self, tongue: Tongue, shape: NameShape = NameShape.ANY) -> str:
        """Return a new word that was not drawn before, capitalised."""
        tries = 0
        while True:
            tries += 1
            word = self._draw(tongue, shape, longer=tries // 50)
            if word is not None and word not in self._taken:
                self._taken.add(word)
                return word.capitalize()

    def _draw(self, tongue: Tongue, shape: NameShape, longer: int) -> str | None:
        rng = self._rng
        stem = ""
        for _ in range(rng.choice((1, 1, 2)) + longer):
            stem += rng.choice(tongue.onsets) + rng.choice(tongue.vowels)
            if tongue.codas and rng.random() < 0.2:
                stem += rng.choice(tongue.codas)
        endings = _endings(tongue, shape).get((self._residue - letters(stem)) % _RESIDUES)
        return stem + rng.choice(endings) if endings else None


def residue_of(split: str, number: int, seed: int) -> int:
    """Return the residue of all words of a world."""
    return len(SPLITS) * ((number + 7 * seed) % WORLDS_APART) + SPLITS.index(split)


def letters(word: str) -> int:
    """Return the sum of the letters of a lower-case word, which decides which worlds may use it."""
    return sum(map(ord, word))


@cache
def _endings(tongue: Tongue, shape: NameShape) -> dict[int, list[str]]:
    """Return all last syllables of a shape, grouped by residue."""
    closing: tuple[str, ...] = tongue.codas or ("",)
    codas = {NameShape.OPEN: ("",), NameShape.CLOSED: closing, NameShape.ANY: ("", *tongue.codas)}[shape]
    endings: dict[int, list[str]] = {}
    for onset in tongue.onsets:
        for vowel in tongue.vowels:
            for coda in codas:
                ending = onset + vowel + coda
                endings.setdefault(letters(ending) % _RESIDUES, []).append(ending)
    return endings


def compound(rng: Random, word: str, river: Callable[[], str]) -> str:
    """Return the name of a settlement: usually the word itself, sometimes with an addition as in real place names."""
    draw = rng.random()
    if draw < 0.86:
        return word
    if draw < 0.93:
        return f"{rng.choice(('New', 'Upper', 'Lower', 'Port', 'Old'))} {word}"
    return f"{word}-on-{river()}"
