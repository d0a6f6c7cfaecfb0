"""Made-up passages with a realistic distribution of words, queries, and the exact results of these."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy

from agentgym.tools.index import Document
from agentgym.tools.index.engine import as_query, index_terms

VOCABULARY = 300_000
COMMONEST = 50
"""Words that no query contains, since they would match everything."""
_CHUNK = 5_000
_SYLLABLES = [f"{first}{second}" for first in "bdfghklmnprstvz" for second in ("a", "e", "i", "o", "u", "an", "or")]


def passages(count: int, seed: int = 0) -> Iterator[Document]:
    """Yield passages of about 100 words with a two-word title."""
    draw = numpy.random.default_rng(seed)
    words = numpy.array([_word(number) for number in range(VOCABULARY)])
    chances = _cumulated()
    for start in range(0, count, _CHUNK):
        many = min(_CHUNK, count - start)
        lengths = draw.integers(60, 141, size=many) + 2
        drawn = words[numpy.searchsorted(chances, draw.random(lengths.sum()))]
        for number, part in enumerate(numpy.split(drawn, numpy.cumsum(lengths)[:-1]), start=start):
            yield Document(f"p{number:08}", " ".join(part[:2]), " ".join(part[2:]))


def queries(count: int, seed: int = 1) -> list[str]:
    """Return queries of 3 to 8 words, none of them among the most common."""
    draw = numpy.random.default_rng(seed)
    chances = _cumulated()
    made = []
    while len(made) < count:
        drawn = numpy.searchsorted(chances, draw.random(20))
        kept = [_word(number) for number in drawn if number >= COMMONEST][: draw.integers(3, 9)]
        if len(kept) >= 3:
            made.append(" ".join(kept))
    return made


def best_by_bm25(documents: Iterable[Document], asked: Sequence[str], k: int) -> list[set[str]]:
    """Return, for each query, the ids of the `k` best documents and of those that tie with the last of them.

    Plain BM25 (k1 1.2, b 0.75) in double precision over the same words, without any index.
    """
    terms = [as_query(query).terms for query in asked]
    wanted = {term for row in terms for term in row}
    postings: dict[str, list[tuple[int, int]]] = {term: [] for term in wanted}
    ids, lengths = [], []
    for number, document in enumerate(documents):
        words = index_terms(document)
        ids.append(document.id)
        lengths.append(len(words))
        for word, count in Counter(word for word in words if word in wanted).items():
            postings[word].append((number, count))
    norms = 1.2 * (0.25 + 0.75 * numpy.array(lengths) / numpy.mean(lengths))
    return [_best([postings[term] for term in row], norms, ids, k) for row in terms]


def _best(found: list[list[tuple[int, int]]], norms: numpy.ndarray, ids: list[str], k: int) -> set[str]:
    scores = numpy.zeros(len(ids))
    for pairs in found:
        if pairs:
            numbers, counts = numpy.array(pairs).T
            weight = math.log(1 + (len(ids) - len(pairs) + 0.5) / (len(pairs) + 0.5))
            scores[numbers] += weight * counts / (counts + norms[numbers])
    last = max(numpy.partition(scores, -k)[-k], 1e-12) if k < len(ids) else 1e-12
    return {ids[number] for number in numpy.flatnonzero(scores >= last * (1 - 1e-5))}


def _word(number: int) -> str:
    """Return a word unique to a number; common words are short."""
    parts = []
    number += 1
    while number:
        number, part = divmod(number - 1, len(_SYLLABLES))
        parts.append(_SYLLABLES[part])
    return "".join(parts) + "x"


def _cumulated() -> numpy.ndarray:
    weights = 1 / numpy.arange(1, VOCABULARY + 1)
    summed = numpy.cumsum(weights)
    return summed / summed[-1]
