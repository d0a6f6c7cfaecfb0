"""Search that deliberately degrades as training proceeds: ZeroSearch's curriculum over any index, without a model.

A growing fraction of a search's hits is replaced by documents on other subjects, or by the same
documents with false names, dates and numbers. Alternatively, a language model writes the documents.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any, Protocol

from agentgym.base.errors import UsageError
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
from agentgym.tools.index.snippets import query_terms, snippet, tokens

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
