"""The files of public question sets: SQuAD, HotpotQA and 2WikiMultihopQA, MuSiQue, NQ-open, and closed corpora.

Every format is read into the same two things: passages, and questions with the passages that they need.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentgym.errors import UsageError

CORPUS, QUESTIONS = "corpus.jsonl", "questions.jsonl"
"""The files of a closed corpus, in a folder."""


@dataclass(frozen=True)
class Passage:
    """A paragraph with the title of its page."""

    title: str
    text: str

    @property
    def id(self) -> str:
        """An id that the same paragraph has wherever it occurs."""
        return hashlib.sha256(f"{self.title}\n{self.text}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Question:
    """A question of a file, with what its own context holds."""

    id: str
    text: str
    answers: list[str]
    evidence: list[Passage] = field(default_factory=list)
    """The passages that the answer needs, in order."""
    context: list[Passage] = field(default_factory=list)
    """All passages that come with the question, evidence and others."""
    kind: str = ""
    page: str = ""
    """What questions share that must stay together, besides evidence: the article of a SQuAD paragraph."""


@dataclass(frozen=True)
class Record:
    """A JSON object of a file, and where it stands."""

    where: str
    fields: Mapping[str, Any]

    def get(self, name: str, type_: type, default: Any = None) -> Any:
        """Return a field of a type. Raises `UsageError` if it is missing (without a default) or of another type."""
        value = self.fields.get(name, default)
        if value is None:
            raise UsageError(f"{self.where}: there is no {name!r}; it has {sorted(map(str, self.fields))}")
        if not isinstance(value, type_):
            raise UsageError(
                f"{self.where}: {name!r} must be {type_.__name__}, not {type(value).__name__}: {value!r:.60}"
            )
        return value

    def text(self, *names: str) -> str:
        """Return the first of the named fields that holds text. Raises `UsageError` if none does."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
                return str(value).strip()
        raise UsageError(f"{self.where}: no text under {' or '.join(map(repr, names))}; it has {sorted(self.fields)}")

    def records(self, name: str) -> list[Record]:
        """Return a field that is a list of objects. Raises `UsageError` if it is not."""
        return [record_at(f"{self.where}, {name} {i}", item) for i, item in enumerate(self.get(name, list))]


def record_at(where: str, value: Any) -> Record:
    """Return a JSON object with its place. Raises `UsageError` if it is none."""
    if not isinstance(value, dict):
        raise UsageError(f"{where}: expected an object, not {type(value).__name__}: {value!r:.60}")
    return Record(where, value)


def read_squad(path: Path) -> Iterator[Question]:
    """Read SQuAD 1.1 or 2.0: questions about the paragraphs of articles."""
    for article in record_at(str(path), _json(path.read_text(encoding="utf-8"), str(path))).records("data"):
        title = article.text("title").replace("_", " ")
        for paragraph in article.records("paragraphs"):
            passage = Passage(title, paragraph.text("context"))
            for entry in paragraph.records("qas"):
                found = [answer.text("text") for answer in entry.records("answers")]
                answers = [] if entry.fields.get("is_impossible") else _unique(found)
                if not answers and not entry.fields.get("is_impossible"):
                    raise UsageError(f"{entry.where}: no answer, and 'is_impossible' is not true")
                yield Question(entry.text("id"), entry.text("question"), answers, [passage], [passage], page=title)


def read_hotpot(path: Path) -> Iterator[Question]:
    """Read HotpotQA or 2WikiMultihopQA: a context of titled paragraphs, and supporting facts in some of them."""
    for entry in _list_or_lines(path):
        context = _titled_paragraphs(entry)
        facts = entry.fields.get("supporting_facts", [])
        titles = facts.get("title", []) if isinstance(facts, dict) else [fact[0] for fact in facts if fact]
        by_title = {passage.title: passage for passage in context}
        missing = [title for title in titles if title not in by_title]
        if missing:
            raise UsageError(f"{entry.where}: supporting fact {missing[0]!r} is no title of the context")
        answers = [entry.text("answer"), *entry.fields.get("answer_aliases", ())]
        yield Question(
            entry.text("_id", "id"),
            entry.text("question"),
            _unique(answers),
            [by_title[title] for title in _unique(titles)],
            context,
            kind=str(entry.fields.get("type", "")),
        )


def read_musique(path: Path) -> Iterator[Question]:
    """Read MuSiQue: paragraphs, some of them supporting, and the steps of the question."""
    for entry in _list_or_lines(path):
        marked = [
            (Passage(paragraph.text("title"), paragraph.text("paragraph_text")), paragraph)
            for paragraph in entry.records("paragraphs")
        ]
        by_index = {paragraph.fields.get("idx", i): passage for i, (passage, paragraph) in enumerate(marked)}
        steps = [step.fields.get("paragraph_support_idx") for step in entry.records("question_decomposition")]
        ordered = [by_index[step] for step in steps if step in by_index]
        marked_ones = [passage for passage, paragraph in marked if paragraph.fields.get("is_supporting")]
        answers = [entry.text("answer"), *entry.fields.get("answer_aliases", ())]
        yield Question(
            entry.text("id"),
            entry.text("question"),
            _unique(answers) if entry.fields.get("answerable", True) else [],
            list(dict.fromkeys([*ordered, *marked_ones])),
            [passage for passage, _ in marked],
        )


def read_open(path: Path) -> Iterator[Question]:
    """Read NQ-open and its like: questions with answers and no passages."""
    for number, entry in enumerate(_list_or_lines(path)):
        given = entry.fields.get("answer", entry.fields.get("answers", entry.fields.get("golden_answers")))
        answers = [given] if isinstance(given, str) else given
        if not isinstance(answers, list) or not answers or not all(isinstance(answer, str) for answer in answers):
            raise UsageError(f"{entry.where}: 'answer' must be text or a list of texts, not {given!r:.60}")
        yield Question(str(entry.fields.get("id", number)), entry.text("question"), _unique(answers))


def read_closed(path: Path) -> Iterator[Question]:
    """Read the questions of a folder with a closed corpus.

    Evidence is what `gold_titles` names; without it, the pages of the entities in the question, where there are any.
    """
    by_title: dict[str, Passage] = {}
    for passage in read_closed_corpus(path):
        by_title.setdefault(passage.title.lower(), passage)
    for entry in _lines(path / QUESTIONS):
        text = entry.text("question")
        titles = [str(title).lower() for title in entry.fields.get("gold_titles") or ()]
        missing = [title for title in titles if title not in by_title]
        if missing:
            raise UsageError(f"{entry.where}: {missing[0]!r} is no title in {CORPUS}")
        if not titles:
            entities = entry.fields.get("entities_in_question") or ()
            titles = [title for entity in entities for title in _titles_of(str(entity).lower(), text.lower(), by_title)]
        evidence = [by_title[title] for title in _unique(titles)]
        kind = str(entry.fields.get("kind", ""))
        yield Question(entry.text("id"), text, [entry.text("answer")], evidence, kind=kind)


def _titles_of(entity: str, question: str, by_title: Mapping[str, Passage]) -> list[str]:
    """Return the title of an entity, or titles in the question that begin with it, such as `entity (1727-1752)`."""
    if entity in by_title:
        return [entity]
    return [title for title in by_title if title.startswith(entity) and title in question]


def read_closed_corpus(path: Path) -> Iterator[Passage]:
    """Read the passages of a folder with a closed corpus."""
    for entry in _lines(path / CORPUS):
        yield Passage(entry.text("title"), entry.text("text"))


READERS: dict[str, Callable[[Path], Iterator[Question]]] = {
    "squad": read_squad,
    "hotpotqa": read_hotpot,
    "2wiki": read_hotpot,
    "musique": read_musique,
    "open": read_open,
    "closed": read_closed,
}
"""How to read each format."""


def detect(path: Path) -> str:
    """Return the format of a file or folder by what it holds. Raises `UsageError` if it is none of the known."""
    if path.is_dir():
        if (path / CORPUS).is_file() and (path / QUESTIONS).is_file():
            return "closed"
        raise UsageError(f"{str(path)!r} has no {CORPUS} and {QUESTIONS}; name a file, or a folder with both")
    with path.open(encoding="utf-8") as file:
        start = file.read(1).strip()
    if path.suffix != ".jsonl" and start != "[":
        return "squad"
    fields = next(iter(_list_or_lines(path)), Record("", {})).fields
    for name, format_ in (
        ("paragraphs", "musique"),
        ("evidences", "2wiki"),
        ("context", "hotpotqa"),
        ("question", "open"),
    ):
        if name in fields:
            return format_
    raise UsageError(f"{path}: unknown format with fields {sorted(fields)}; choose from: {', '.join(READERS)}")


def _titled_paragraphs(entry: Record) -> list[Passage]:
    context = entry.fields.get("context")
    pairs: Any = context
    if isinstance(context, dict):
        pairs = list(zip(context.get("title", ()), context.get("sentences", context.get("content", ())), strict=False))
    try:
        return [Passage(str(title), " ".join(line.strip() for line in sentences)) for title, sentences in pairs]
    except (TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{entry.where}: 'context' must be a list of [title, [sentences]], not {context!r:.60}"
        ) from error


def _list_or_lines(path: Path) -> Iterator[Record]:
    """Read a JSON list, or JSON lines."""
    if path.suffix == ".jsonl":
        yield from _lines(path)
        return
    items = _json(path.read_text(encoding="utf-8"), str(path))
    if not isinstance(items, list):
        raise UsageError(f"{path}: expected a list of questions, not {type(items).__name__}")
    for number, item in enumerate(items):
        yield record_at(f"{path}: item {number}", item)


def _lines(path: Path) -> Iterator[Record]:
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                yield record_at(f"{path}:{number}", _json(line, f"{path}:{number}"))


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"{where}: not JSON: {error}") from error


def _unique(texts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(texts))
