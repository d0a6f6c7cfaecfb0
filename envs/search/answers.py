"""What an answer says and how well it agrees with the gold: exact match and F1 after SQuAD's normalisation.

The normalisation is that of the official SQuAD and HotpotQA scripts (Rajpurkar et al. 2016, Yang et al. 2018).
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable

ABSTENTIONS = frozenset(
    {
        "unknown",
        "unanswerable",
        "not answerable",
        "no answer",
        "noanswer",
        "not stated",
        "not known",
        "cannot be answered",
        "i dont know",
        "it is not stated",
        "pages do not say",
    }
)
"""Normalised answers that say that there is no answer."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CITED = re.compile(r"\s*\[\s*(\d{1,6}(?:\s*,\s*\d{1,6})*)\s*\]")
_ALL_OR_NOTHING = frozenset({"yes", "no", "noanswer"})


def normalize(text: str) -> str:
    """Return `text` in lower case, without punctuation and English articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact(answer: str, golds: Iterable[str]) -> bool:
    """Whether `answer` is one of `golds` once normalised."""
    said = normalize(answer)
    return any(said == normalize(gold) for gold in golds)


def contains(answer: str, golds: Iterable[str]) -> bool:
    """Whether one of `golds` stands in `answer`, in whole words, once normalised (sub-EM)."""
    said = f" {normalize(answer)} "
    return any(f" {gold} " in said for gold in map(normalize, golds) if gold)


def f1(answer: str, golds: Iterable[str]) -> float:
    """Return the best F1 of the words of `answer` with those of any gold.

    As in HotpotQA's script, a yes, no or noanswer on either side agrees with the same word alone or not at all.
    """
    return max((_f1(normalize(answer), normalize(gold)) for gold in golds), default=0.0)


def _f1(said: str, gold: str) -> float:
    if said == gold:
        return 1.0
    if said in _ALL_OR_NOTHING or gold in _ALL_OR_NOTHING:
        return 0.0
    words, wanted = said.split(), gold.split()
    common = sum((Counter(words) & Counter(wanted)).values())
    return 2 * common / (len(words) + len(wanted)) if common else 0.0


def abstains(answer: str) -> bool:
    """Whether an answer says that the question cannot be answered."""
    return normalize(answer) in ABSTENTIONS


def without_citations(text: str) -> tuple[str, tuple[int, ...]]:
    """Split an answer such as `Veld [2] [5, 7]` into `Veld` and the numbers of the pages that it cites."""
    numbers = [int(number) for group in _CITED.findall(text) for number in group.split(",")]
    return _CITED.sub("", text).strip(), tuple(dict.fromkeys(numbers))
