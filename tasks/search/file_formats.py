"""The files of public question sets: SQuAD, HotpotQA and 2WikiMultihopQA, MuSiQue, NQ-open, and closed corpora.

Every format is read into passages, and questions with the passages that they need. An unreadable entry raises
`Unusable`; the reader of the file leaves it out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.core.task_files import Quarantine, Unusable
from agentgym.tasks.read_tasks import refuse_empty
from agentgym.tasks.records import Record, as_object, read_records, whole_object

CORPUS, QUESTIONS = "corpus.jsonl", "questions.jsonl"
"""The files of a closed corpus, in a folder."""


@dataclass(frozen=True)
class Passage:
    """A paragraph with the title of its page."""

    title: str
    text: str

    @cached_property
    def id(self) -> str:
        """An id that is the same wherever the paragraph occurs."""
        return hashlib.sha256(f"{self.title}\n{self.text}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Question:
    """A question of a file, with its own context."""

    id: str
    text: str
    answers: list[str]
    evidence: list[Passage] = field(default_factory=list)
    """The passages that the answer needs, in order."""
    context: list[Passage] = field(default_factory=list)
    """All passages that come with the question, evidence included."""
    kind: str = ""
    page: str = ""
    """A further key of questions that must stay together: the article of a SQuAD paragraph."""


@dataclass(frozen=True)
class QuestionFormat:
    """How to read a file of questions."""

    read: Callable[[Record], Question]
    """Makes a question from an entry."""
    entries: Callable[[Path, Quarantine], Iterator[Record]] = read_records
    """Yields the entries of a file, one per question."""


def read_squad(entry: Record) -> Question:
    """Read a question of SQuAD 1.1 or 2.0 with its paragraph."""
    title = _text_of(entry, "title").replace("_", " ")
    passage = Passage(title, _text_of(entry, "context"))
    raw_answers = entry.fields.get("answers")
    if isinstance(raw_answers, dict):  # as in the Parquet files: columns instead of objects
        texts = Record(entry.where, raw_answers).texts("text")
    else:
        texts = [_text_of(answer, "text") for answer in entry.records("answers")]
    impossible = entry.fields.get("is_impossible") is True or (raw_answers == {"text": [], "answer_start": []})
    if not texts and not impossible:
        raise Unusable("no answer, although 'is_impossible' is not true")
    answers = [] if impossible else _unique(texts)
    return Question(_text_of(entry, "id"), _text_of(entry, "question"), answers, [passage], [passage], page=title)


def squad_entries(path: Path, quarantine: Quarantine) -> Iterator[Record]:
    """Yield the questions of SQuAD, each with its paragraph and the title of its article."""
    whole = whole_object(path)
    if whole is None:
        yield from read_records(path, quarantine)
        return
    for number, article in enumerate(_articles(whole, path)):
        paragraphs: list[tuple[str, Record]] = []
        with quarantine.guard(where := f"{path}: data {number}"):
            inside = Record(where, as_object(article))
            title = _text_of(inside, "title")
            paragraphs = [(title, paragraph) for paragraph in inside.records("paragraphs")]
        for title, paragraph in paragraphs:
            yield from _of_paragraph(title, paragraph, path, quarantine)


def _of_paragraph(title: str, paragraph: Record, path: Path, quarantine: Quarantine) -> list[Record]:
    """Return the questions of a paragraph, with its text and the title of its article."""
    with quarantine.guard(paragraph.where):
        shared = {"title": title, "context": _text_of(paragraph, "context")}
        return [Record(entry.where, {**entry.fields, **shared}, path) for entry in paragraph.records("qas")]
    return []


def read_hotpot(entry: Record) -> Question:
    """Read HotpotQA or 2WikiMultihopQA: a context of titled paragraphs, and supporting facts in some of them."""
    context = _titled_paragraphs(entry)
    titles = _supporting_titles(entry.fields.get("supporting_facts") or [])
    by_title = {passage.title: passage for passage in context}
    missing = [title for title in titles if title not in by_title]
    if missing:
        raise Unusable(f"supporting fact {missing[0]!r} is not a title in the context")
    return Question(
        _name(entry),
        _text_of(entry, "question"),
        _unique([_text_of(entry, "answer"), *entry.texts("answer_aliases")]),
        [by_title[title] for title in _unique(titles)],
        context,
        kind=str(entry.fields.get("type") or ""),
    )


def read_musique(entry: Record) -> Question:
    """Read MuSiQue: paragraphs, some of them supporting, and the steps of the question."""
    marked = [
        (Passage(_text_of(paragraph, "title"), _text_of(paragraph, "paragraph_text")), paragraph)
        for paragraph in entry.records("paragraphs")
    ]
    by_index = {paragraph.get("idx", int, i): passage for i, (passage, paragraph) in enumerate(marked)}
    steps = [step.get("paragraph_support_idx", int, -1) for step in entry.records("question_decomposition")]
    ordered = [by_index[step] for step in steps if step in by_index]
    supporting = [passage for passage, paragraph in marked if paragraph.fields.get("is_supporting")]
    answerable = entry.fields.get("answerable", True)
    answers = _unique([_text_of(entry, "answer"), *entry.texts("answer_aliases")]) if answerable else []
    return Question(
        _name(entry),
        _text_of(entry, "question"),
        answers,
        list(dict.fromkeys([*ordered, *supporting])),
        [passage for passage, _ in marked],
    )


def read_open(entry: Record) -> Question:
    """Read NQ-open and similar formats: questions with answers and no passages."""
    names = ("answer", "answers", "golden_answers")
    value = next((entry.fields[name] for name in names if entry.fields.get(name) is not None), None)
    answers = [value] if isinstance(value, str) else value
    if not isinstance(answers, list) or not answers or not all(isinstance(answer, str) for answer in answers):
        raise Unusable(f"'answer' must be text or a list of texts, not {value!r:.60}")
    return Question(_name(entry), _text_of(entry, "question"), _unique(answers))


def closed_entries(path: Path, quarantine: Quarantine) -> Iterator[Record]:
    """Yield the questions of a folder with a closed corpus, with their evidence as `context`.

    Evidence is the pages that `gold_titles` names; without it, the pages of the entities in the question, if any.
    """
    by_title: dict[str, Passage] = {}
    for passage in closed_corpus(path, quarantine):
        by_title.setdefault(passage.title.lower(), passage)
    for entry in read_records(path / QUESTIONS, quarantine):
        with quarantine.guard(entry.where):
            titles = _evidence_titles(entry, by_title)
            evidence = [by_title[title] for title in _unique(titles)]
            yield Record(entry.where, {**entry.fields, _EVIDENCE: evidence}, entry.file, entry.number)


def read_closed(entry: Record) -> Question:
    """Read a question of a folder with a closed corpus."""
    kind = str(entry.fields.get("kind") or "")
    evidence: list[Passage] = entry.fields[_EVIDENCE]
    return Question(_name(entry), _text_of(entry, "question"), [_text_of(entry, "answer")], evidence, kind=kind)


def closed_corpus(path: Path, quarantine: Quarantine) -> Iterator[Passage]:
    """Yield the passages of a folder with a closed corpus."""
    for entry in read_records(path / CORPUS, quarantine):
        with quarantine.guard(entry.where):
            yield Passage(_text_of(entry, "title"), _text_of(entry, "text"))


def _evidence_titles(entry: Record, by_title: Mapping[str, Passage]) -> list[str]:
    titles = [str(title).lower() for title in entry.get("gold_titles", list, [])]
    missing = [title for title in titles if title not in by_title]
    if missing:
        raise Unusable(f"{missing[0]!r} is not a title in {CORPUS}")
    if titles:
        return titles
    text = _text_of(entry, "question").lower()
    entities = entry.get("entities_in_question", list, [])
    return [title for entity in entities for title in _titles_of(str(entity).lower(), text, by_title)]


def _titles_of(entity: str, question: str, by_title: Mapping[str, Passage]) -> list[str]:
    """Return the title of an entity, or the titles in the question that begin with it, such as `entity (1727-1752)`."""
    if entity in by_title:
        return [entity]
    return [title for title in by_title if title.startswith(entity) and title in question]


FORMATS: dict[str, QuestionFormat] = {
    "squad": QuestionFormat(read_squad, squad_entries),
    "hotpotqa": QuestionFormat(read_hotpot),
    "2wiki": QuestionFormat(read_hotpot),
    "musique": QuestionFormat(read_musique),
    "open": QuestionFormat(read_open),
    "closed": QuestionFormat(read_closed, closed_entries),
}
"""The known formats by name."""

_EVIDENCE = "evidence passages"


def detect(path: Path) -> str:
    """Return the format of a file or closed corpus, detected from its content. Raises `UsageError` if it is unknown."""
    if path.is_dir():
        return "closed"
    if (whole := whole_object(path)) is not None:
        _articles(whole, path)
        return "squad"
    unread = Quarantine(str(path))
    names: set[str] = set()
    for entry in read_records(path, unread):
        names |= set(map(str, entry.fields))
        if (format_ := _by_fields(entry.fields)) is not None:
            return format_
    if not names:
        refuse_empty({path: len(unread.entries)})
        unread.close(kept=0)
    raise UsageError(f"{path}: unknown format with fields {sorted(names)[:20]}; choose from: {', '.join(FORMATS)}")


def _by_fields(fields: Mapping[str, Any]) -> str | None:
    for name, format_ in (("paragraphs", "musique"), ("evidences", "2wiki")):
        if name in fields:
            return format_
    if "context" in fields:
        return "squad" if isinstance(fields["context"], str) else "hotpotqa"
    return "open" if "question" in fields else None


def _articles(whole: Mapping[str, Any], path: Path) -> list[Any]:
    articles = whole.get("data")
    if not isinstance(articles, list):
        raise UsageError(f"{path}: one JSON object without a list 'data' in it; it has {sorted(whole)[:8]}")
    return articles


def _supporting_titles(facts: Any) -> list[str]:
    """Return the titles that supporting facts name, from pairs or from columns."""
    titles = facts.get("title") if isinstance(facts, dict) else facts
    pairs = titles if isinstance(titles, list) else None
    named_titles: list[Any] = [part[0] if isinstance(part, list) and part else part for part in pairs or ()]
    if pairs is None or not all(isinstance(title, str) for title in named_titles):
        raise Unusable(f"'supporting_facts' must be a list of [title, sentence], not {facts!r:.60}")
    return named_titles


def _titled_paragraphs(entry: Record) -> list[Passage]:
    context = entry.fields.get("context")
    pairs: Any = context
    if isinstance(context, dict):
        pairs = list(zip(context.get("title", ()), context.get("sentences", context.get("content", ())), strict=False))
    try:
        return [Passage(str(title), " ".join(line.strip() for line in sentences)) for title, sentences in pairs]
    except (TypeError, ValueError, AttributeError) as error:
        raise Unusable(f"'context' must be a list of [title, [sentences]], not {context!r:.60}") from error


def _name(entry: Record) -> str:
    """Return the name of a question in its file: its id or its position."""
    return entry.label("_id", "id") or str(entry.number)


def _text_of(entry: Record, *names: str) -> str:
    """Return the first of the named fields that holds text or a number. Raises `Unusable` if none does."""
    return entry.label(*names) or entry.text(*names).strip()


def _unique(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))
