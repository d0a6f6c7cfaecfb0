"""Compares answers with the gold answers.

The comparison is that of the official SQuAD and HotpotQA scripts (Rajpurkar et al. 2016, Yang et al. 2018), with these
exceptions. Their normalisation may not throw the answer away: 3.5 does not equal 35, $5 does not equal 5%, and "A" does
not equal the empty text. Other spellings of the same number, quantity or date are equal, and so are other dashes and
quotes (`agentgym.core.answers.written`).

`contains` is the cover or sub-exact match that Search-R1 and its successors report: the answer contains the gold. Their
scripts accept any text that contains it, such as pasted pages and lists of candidates. Here the answer must also commit
itself: it may contain a few more words, from the question or from usual phrases, but none that deny the gold or name an
alternative.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable

from agentgym.core.answers.decisions import OTHER, Decision
from agentgym.core.answers.texts import fold
from agentgym.core.answers.units import units_in
from agentgym.core.answers.written import text_decision

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
"""Normalised answers that abstain."""

F1_SOLVED = 0.8
"""Lowest F1 that `nearly` accepts."""
SURPLUS = 12
"""`contains` accepts answers of at most this many words more than twice the gold's."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CITED = re.compile(r"\s*\[\s*(\d{1,6}(?:\s*,\s*\d{1,6})*)\s*\]")
_ALL_OR_NOTHING = frozenset({"yes", "no", "noanswer"})
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_SIGNS = re.compile(rf"(?<=\d)[{re.escape(string.punctuation)}](?=\d)|(?<!\w)-(?=\d)|(?<=[\w+#])[+#](?!\w)")
"""Signs that decide the meaning: those in numbers, and those that end a name such as C++ or C#."""
_PRIVATE = 0xE000
"""Code points that protect decisive signs from the normalisation."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FRAME = _words("""
    it its is was are were be been being this that these those he she they him his her their who whom whose which what
    where when there here i we you me my our think believe guess know found find say says said state states stated tell
    tells show shows according of in on at by for from to with as and also so then thus therefore hence because answer
    answers question correct right final name named called known would must should has have had do does did page pages
    text source sources article probably perhaps maybe likely sure certainly
""")
"""Words that may surround an answer; none of them names a candidate."""
_DENIALS = _words("""
    not no never neither nor none nobody nothing without except or either versus vs false wrong incorrect instead rather
    unless unknown isnt wasnt arent werent dont doesnt didnt cannot cant
""")
"""Words that retract an answer or introduce an alternative."""


def normalize(text: str) -> str:
    """Return `text` in lower case, without punctuation and English articles, with single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact(answer: str, golds: Iterable[str], question: str = "") -> Decision:
    """Return the decision whether `answer` is one of `golds` once normalised, or the same number, quantity or date.

    Args:
        answer: The answer.
        golds: Accepted answers.
        question: The question, whose units a number may have.
    """
    decisions = [text_decision(answer, gold, question, _comparable) for gold in golds]
    right = next((decision for decision in decisions if decision.equal), None)
    if right is not None:
        return right
    return OTHER if OTHER in decisions or not decisions else decisions[0]


def mentions(text: str, golds: Iterable[str]) -> bool:
    """Whether `text` contains one of `golds` as whole words, both normalised."""
    padded = f" {_folded(text)} "
    return any(f" {_folded(gold)} " in padded for gold in golds)


def contains(answer: str, golds: Iterable[str], question: str = "") -> bool:
    """Whether `answer` contains one of `golds` and commits itself to it (sub-exact match, with bounds).

    Args:
        answer: The answer.
        golds: Accepted answers, all of them names of the same thing.
        question: The question. The answer may repeat its words, unless the question itself names the gold.
    """
    golds = [_folded(gold) for gold in golds]
    answer_text, question_text = _folded(answer), f" {_folded(question)} "
    named = any(f" {gold} " in question_text for gold in golds)
    implied = {"year", "years", "old"} if "year" in units_in(question) else set()
    free = _FRAME if named else _FRAME | implied | (set(question_text.split()) - _DENIALS)
    free = free.union(*(gold.split() for gold in golds))
    return any(_commits(answer_text.split(), gold.split(), free) for gold in golds)


def f1(answer: str, golds: Iterable[str]) -> float:
    """Return the best F1 of the words of `answer` with those of any gold.

    As in HotpotQA's script, `yes`, `no` and `noanswer` agree only with the same word.
    """
    return max((_f1(_folded(answer), _folded(gold)) for gold in golds), default=0.0)


def nearly(answer: str, golds: Iterable[str]) -> bool:
    """Whether F1 with one of `golds` reaches `F1_SOLVED`, with the same numbers and denials."""
    answer_text = _folded(answer)
    near = [gold for gold in map(_folded, golds) if _f1(answer_text, gold) >= F1_SOLVED]
    return any(_decisive(answer_text) == _decisive(gold) for gold in near)


def abstains(answer: str) -> bool:
    """Whether an answer says that the question cannot be answered."""
    return normalize(fold(answer)) in ABSTENTIONS


def without_citations(text: str) -> tuple[str, tuple[int, ...]]:
    """Split an answer such as `Veld [2] [5, 7]` into `Veld` and the numbers of the pages that it cites."""
    numbers = [int(number) for group in _CITED.findall(text) for number in group.split(",")]
    return _CITED.sub("", text).strip(), tuple(dict.fromkeys(numbers))


def _folded(text: str) -> str:
    """Return `text` in the form to compare, with plain typography."""
    return _comparable(fold(text))


def _comparable(text: str) -> str:
    """Return `text` normalised, with its decisive signs; empty only if `text` is."""
    marked = _SIGNS.sub(lambda sign: chr(_PRIVATE + ord(sign[0])), _THOUSANDS.sub("", text))
    lowered = " ".join(text.lower().split())
    return normalize(marked) or lowered.translate(_PUNCTUATION).strip() or lowered


def _commits(words: list[str], gold: list[str], free: Iterable[str]) -> bool:
    """Whether an answer consists of the gold's words in a row and a bounded number of free words."""
    if len(words) > 2 * len(gold) + SURPLUS:
        return False
    for start in range(len(words) - len(gold) + 1):
        if words[start : start + len(gold)] != gold:
            continue
        if all(word in free for word in (*words[:start], *words[start + len(gold) :])):
            return True
    return False


def _f1(answer: str, gold: str) -> float:
    if answer == gold:
        return 1.0
    if answer in _ALL_OR_NOTHING or gold in _ALL_OR_NOTHING:
        return 0.0
    words, gold_words = answer.split(), gold.split()
    common = sum((Counter(words) & Counter(gold_words)).values())
    return 2 * common / (len(words) + len(gold_words)) if common else 0.0


def _decisive(text: str) -> Counter[str]:
    """Return the words that decide the meaning of an answer: numbers and denials."""
    return Counter(word for word in text.split() if word in _DENIALS or any(char.isdecimal() for char in word))
