"""Search that deliberately degrades as training proceeds: ZeroSearch's curriculum over any index, without a model.

A growing fraction of a search's hits is replaced by documents on other subjects, or by the same
documents with false names, dates and numbers. Alternatively, a language model writes the documents.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any, Protocol

from agentgym.errors import UsageError
from agentgym.tools.index.base import (
    MAX_QUERY_CHARS,
    Document,
    Filters,
    Hit,
    Index,
    Page,
    Span,
    page_of,
)
from agentgym.tools.index.falsehoods import Swaps, names_in, swaps_for
from agentgym.tools.index.snippets import snippet
from agentgym.tools.index.tokens import query_terms, tokens

_SAMPLE = 128
_STEPS = 64
_HITS_PER_STEP = 10
_RELATED = 50
"""Top hits of a query that are never used as documents on other subjects."""
_COMMON_WORDS = "the of and in a is was to for by on at from with"
_NAMES = 500
_KEPT = 2_000


class Quality(StrEnum):
    """How useful a document is for the query."""

    USEFUL = "useful"
    NOISY = "noisy"
    """It is about a different subject."""
    MISLEADING = "misleading"
    """It is about the same subject, with false statements."""


@dataclass(frozen=True)
class Schedule:
    """The fraction of useless documents as a function of the training step: ZeroSearch's curve.

    Args:
        start: The fraction at step 0.
        end: The fraction from step `total` on.
        base: The larger, the later the curve rises; 1 is a straight line.
        total: The first step with the fraction `end`.
    """

    start: float = 0.0
    end: float = 0.5
    base: float = 4.0
    total: int = 203

    def __post_init__(self) -> None:
        if not (0 <= self.start <= 1 and 0 <= self.end <= 1 and self.base > 0 and self.total > 0):
            raise UsageError(f"start and end must be between 0 and 1, and base and total above 0, not {self!r}")

    def at(self, step: float) -> float:
        """Return the fraction at a step."""
        passed = min(max(step / self.total, 0.0), 1.0)
        risen = passed if self.base == 1 else (self.base**passed - 1) / (self.base - 1)
        return self.start + risen * (self.end - self.start)


class Writer(Protocol):
    """Writes documents for a query, as a search engine might return them."""

    def write(self, query: str, quality: Quality, count: int, *, background: str, seed: int) -> list[Document]:
        """Return `count` useful or noisy documents. The ids do not matter.

        Args:
            query: The search query.
            quality: Whether the documents should help.
            count: The number of documents.
            background: Further knowledge for the writer, such as a question and its answer.
            seed: Equal seeds should give equal documents.
        """
        ...


class SimulatedIndex:
    """An index whose answers degrade by a schedule. Answers depend only on seed, query and step.

    Whether a document misleads depends on seed, step and document, so it is the same in every search and when it is
    opened. Episodes should use the result of `at`, because the step can change during an episode.

    Args:
        inner: The index to degrade.
        schedule: The fraction of useless documents, by step.
        seed: Determines which documents.
        generator: Writes all documents, including useful ones; by default they come from `inner`.
        misleading: The fraction of useless documents that mislead; the others are noise. A generator
            writes no misleading ones, and gives all documents of one search the same quality, as in ZeroSearch.
        step: The initial training step.
    """

    def __init__(
        self,
        inner: Index,
        schedule: Schedule | None = None,
        seed: int = 0,
        generator: Writer | None = None,
        *,
        misleading: float = 0.5,
        step: float = 0.0,
    ) -> None:
        if not 0 <= misleading <= 1:
            raise UsageError(f"misleading must be between 0 and 1, not {misleading!r}")
        self.inner = inner
        self.schedule = schedule or Schedule()
        self.seed = seed
        self.generator = generator
        self.misleading = misleading
        self.step = step
        self._background = ""
        self._truths: tuple[str, ...] = ()
        self._samples: dict[tuple[tuple[str, str], ...], list[Document]] = {}
        self._false: dict[tuple[str, tuple[str, ...]], Document] = {}
        self._written: dict[str, Document] = {}

    @property
    def name(self) -> str:
        """The name of the degraded index."""
        return f"simulated-{self.inner.name}"

    def __len__(self) -> int:
        return len(self.inner)

    def set_progress(self, step: float) -> None:
        """Set the training step, for all users of this object."""
        self.step = step

    def at(self, step: float | None = None, *, background: str = "", truths: Sequence[str] = ()) -> SimulatedIndex:
        """Return a copy of this index fixed at a step.

        Args:
            step: The step; by default the current one.
            background: Knowledge for the generator, such as the question and its answer.
            truths: Values of any kind that misleading documents must not contain.
        """
        view = copy.copy(self)
        view.step = self.step if step is None else step
        view._background, view._truths = background, tuple(truths)
        return view

    def search(self, query: str, k: int = 5, filters: Filters | None = None) -> list[Hit]:
        """Return hits, some of them replaced."""
        return self.search_many([query], k, filters)[0]

    def search_many(self, queries: Sequence[str], k: int = 5, filters: Filters | None = None) -> list[list[Hit]]:
        """Return the hits of each query, some of them replaced."""
        if self.generator:
            return [self._written_hits(self.generator, query[:MAX_QUERY_CHARS], k) for query in queries]
        results = self.inner.search_many(queries, k, filters)
        return [self._worse(query, hits, filters) for query, hits in zip(queries, results, strict=True)]

    def quality(self, query: str, rank: int, document_id: str) -> Quality:
        """Return the quality of the document that a query finds at a rank, counted from 0."""
        part = self.schedule.at(self.step)
        if self._misleads(document_id):
            return Quality.MISLEADING
        misled = part * self.misleading
        # Noise is drawn among documents that do not mislead, so that both add up to the scheduled fraction.
        noise = (part - misled) / (1 - misled) if misled < 1 else 0.0
        return Quality.NOISY if self._draw("noise", query, str(rank)) < noise else Quality.USEFUL

    def open(self, document_id: str, span: Span | None = None) -> Page:
        """Return the full text of a hit at this step.

        Raises:
            NoSuchDocument: The index does not contain the document.
        """
        if document := self._written.get(document_id):
            return page_of(document, span)
        if self.generator or not self._misleads(document_id):
            return self.inner.open(document_id, span)
        return page_of(self._falsified(document_id), span)

    def close(self) -> None:
        """Close the degraded index."""
        self.inner.close()

    def _misleads(self, document_id: str) -> bool:
        return self._draw("document", document_id) < self.schedule.at(self.step) * self.misleading

    def _worse(self, query: str, hits: Sequence[Hit], filters: Filters | None) -> list[Hit]:
        qualities = [self.quality(query, rank, hit.id) for rank, hit in enumerate(hits)]
        noise = self._noise(query, qualities.count(Quality.NOISY), filters)
        terms = query_terms(query)
        worse: list[Hit] = []
        for hit, quality in zip(hits, qualities, strict=True):
            if quality is Quality.USEFUL:
                worse.append(hit)
                continue
            if quality is Quality.MISLEADING:
                document = self._falsified(hit.id)
            elif noise:
                document = noise.pop()
            else:
                # The corpus has no documents on other subjects, so there are fewer hits.
                continue
            worse.append(Hit(document.id, document.title, snippet(document.text, terms), hit.score))
        return worse

    def _noise(self, query: str, count: int, filters: Filters | None) -> list[Document]:
        """Return documents unrelated to a query, which do not mislead."""
        if not count:
            return []
        related = {hit.id for hit in self.inner.search(query, _RELATED, filters)}
        sample = self._sample(query, filters)
        free = [document for document in sample if document.id not in related and not self._misleads(document.id)]
        return Random(f"{self.seed}|{self.step}|{query}").sample(free, min(count, len(free)))

    def _falsified(self, document_id: str) -> Document:
        key = document_id, self._truths
        if key not in self._false:
            self._false[key] = self._falsify(self.inner.open(document_id))
            _forget_oldest(self._false)
        return self._false[key]

    def _falsify(self, page: Page) -> Document:
        names = [
            name for document in self._sample(page.title, None) for name in (document.title, *names_in(document.text))
        ]
        swaps = swaps_for(
            f"{page.title}\n{page.text}",
            keep=page.title,
            names=names[:_NAMES],
            seed=str(self.seed),
            truths=self._truths,
        )
        return Document(page.id, Swaps({}, swaps.truths).apply(page.title), swaps.apply(page.text))

    def _sample(self, query: str, filters: Filters | None) -> list[Document]:
        """Sample documents from the corpus by a random walk between words and documents."""
        key = tuple(sorted((filters or {}).items()))
        if key not in self._samples:
            sample = self._wander(_COMMON_WORDS, filters)
            if not sample:
                return self._wander(query, filters)
            self._samples[key] = sample
        return self._samples[key]

    def _wander(self, start: str, filters: Filters | None) -> list[Document]:
        random = Random(f"{self.seed}|sample")
        documents: dict[str, Document] = {}
        words = start
        for _ in range(_STEPS):
            hits = self.inner.search(words, _SAMPLE if words == start else _HITS_PER_STEP, filters)
            for hit in random.sample(hits, min(len(hits), 4)):
                if hit.id not in documents:
                    documents[hit.id] = Document(hit.id, hit.title, self.inner.open(hit.id).text)
            if not documents or len(documents) >= _SAMPLE:
                break
            words_of_one = tokens(random.choice(list(documents.values())).text)
            words = " ".join(random.sample(words_of_one, min(2, len(words_of_one)))) or start
        return [documents[name] for name in sorted(documents)]

    def _written_hits(self, generator: Writer, query: str, k: int) -> list[Hit]:
        terms = query_terms(query)
        if not terms or k < 1:
            return []
        noisy = self._draw("answer", query) < self.schedule.at(self.step)
        quality = Quality.NOISY if noisy else Quality.USEFUL
        seed = int(self._draw("writer", query) * 2**31)
        documents = generator.write(query, quality, k, background=self._background, seed=seed)[:k]
        hits = []
        for rank, document in enumerate(documents, 1):
            name = hashlib.sha256(f"{query}|{rank}|{document.title}|{document.text}".encode("utf-8", "replace"))
            named = Document(f"w-{name.hexdigest()[:12]}", document.title, document.text)
            self._written[named.id] = named
            hits.append(Hit(named.id, named.title, snippet(named.text, terms), 1 / rank))
        _forget_oldest(self._written)
        return hits

    def _draw(self, *what: str) -> float:
        """Return a number between 0 and 1 that depends on seed, step and `what`."""
        text = "\0".join((str(self.seed), f"{self.step:g}", *what))
        return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big") / 2**64

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_samples": {}, "_false": {}, "_written": dict(self._written)}


def _forget_oldest(cache: dict[Any, Document]) -> None:
    for name in list(cache)[: max(0, len(cache) - _KEPT)]:
        cache.pop(name, None)
