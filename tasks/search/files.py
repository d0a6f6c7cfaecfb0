"""`SearchFileTasks`: questions of public data sets, over a closed corpus of the passages that come with them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from agentgym.base.choices import one_of
from agentgym.base.errors import TaskError, UsageError
from agentgym.core.task import Task, TaskList
from agentgym.core.task_files import LeftOut, Quarantine
from agentgym.tasks.read_tasks import Splitter, read_tasks, refuse_empty
from agentgym.tasks.records import existing, files_in
from agentgym.tasks.search.file_formats import CORPUS, FORMATS, QUESTIONS, Passage, Question, closed_corpus, detect
from agentgym.tools.index.base import Document

_HASH = "sha256"
_WITHOUT_CORPUS = "open"


@dataclass(frozen=True)
class _FileQuestion:
    """A question with its position in a file."""

    where: str
    file: Path
    question: Question
    group: str = ""
    """Name of the group of questions that share passages with it (see `_groups`)."""


class SearchFileTasks(TaskList):
    """Questions of a file or folder.

    By hash, splits share no evidence: questions that need a common passage are in the same split, however long the
    chain that links them; for SQuAD, questions on the same article are. Questions without passages are split by their
    text. By file, splits share what those of the data set share.

    Args:
        path: A file of SQuAD, HotpotQA, 2WikiMultihopQA, MuSiQue or NQ-open (JSON, JSON lines or Parquet), a folder of
            such files, or one with `corpus.jsonl` and `questions.jsonl`.
        format: `squad`, `hotpotqa`, `2wiki`, `musique`, `open` or `closed`; `auto` detects it from the content.
        split_by: `"file"`: files named like train, dev and test are the splits (others count as train). `"hash"`: the
            evidence decides. `"auto"`: by file if a name says dev or test. Or the one split that all questions belong
            to.
        strict: Raise `UsageError` for the first broken question instead of leaving it out.
    """

    left_out: tuple[LeftOut, ...]
    """Questions without a usable task, each with the reason."""

    def __init__(self, path: str | Path, *, format: str = "auto", split_by: str = "auto", strict: bool = False):
        self.path = existing(path)
        one_of("format", format, ("auto", *FORMATS))
        quarantine = Quarantine(str(path), strict)
        self.format = _format_of(self.path) if format == "auto" else format
        self.corpus: dict[str, str] | None = _named(self.path, self.format)
        """The argument of `documents_of_file`; `None` for a format without passages."""
        questions = _questions(self.path, self.format, quarantine)
        splitter = Splitter.of(split_by, {file_question.file for file_question in questions})
        tasks = read_tasks(
            _grouped(questions),
            lambda file_question: self._task(file_question, splitter.split(file_question.file, file_question.group)),
            quarantine,
        )
        self.left_out = quarantine.entries
        quarantine.close(len(tasks))
        super().__init__(read.task for read in tasks)

    @cached_property
    def documents(self) -> list[Document]:
        """The closed corpus: every passage once."""
        return list(documents_of_file(self.corpus)) if self.corpus else []

    def _task(self, file_question: _FileQuestion, split: str) -> Task:
        question = file_question.question
        evidence = [passage.id for passage in question.evidence]
        hops = [{"query": passage.title, "document": passage.id} for passage in question.evidence]
        name = self.path.stem if self.format == "closed" else file_question.file.stem
        return Task(
            id=f"{name}/{question.id}",
            split=split,
            prompt=question.text,
            difficulty=max(1, min(5, len(evidence))),
            data={"corpus": self.corpus} if self.corpus else {},
            gold={
                "answers": question.answers,
                "evidence": evidence,
                "unanswerable": not question.answers,
                "hops": hops,
                "hop_count": len(hops),
                "family": self.format,
                "needs_search": True,
            },
            tags=(self.format, *([question.kind] if question.kind else [])),
        )


def documents_of_file(corpus: Mapping[str, Any]) -> Iterator[Document]:
    """Yield every passage of a file or folder once. Raises `TaskError` if the file is gone or has changed."""
    path, format_ = Path(str(corpus["file"])), str(corpus.get("format", ""))
    if format_ not in FORMATS or not path.exists():
        raise TaskError(
            f"no corpus {dict(corpus)!r}: the file is gone, or the format is not one of {', '.join(FORMATS)}"
        )
    if _HASH in corpus and corpus[_HASH] != _hash(path):
        raise TaskError(f"{str(path)!r} is not the file that the task was made from; make the tasks again")
    seen_ids: set[str] = set()
    for passage in _passages(path, format_):
        if passage.id not in seen_ids:
            seen_ids.add(passage.id)
            yield Document(passage.id, passage.title, passage.text)


def _passages(path: Path, format_: str) -> Iterator[Passage]:
    already_reported = Quarantine(str(path))
    if format_ == "closed":
        return closed_corpus(path, already_reported)
    questions = _questions(path, format_, already_reported)
    return (passage for file_question in questions for passage in file_question.question.context)


def _format_of(path: Path) -> str:
    """Return the format of a file or of a closed corpus, or the common format of the files of a folder."""
    if not path.is_dir():
        return detect(path)
    if _is_closed(path):
        return "closed"
    if not (files := files_in(path)):
        raise UsageError(f"{str(path)!r} has no {CORPUS} and {QUESTIONS}, and no other file of questions")
    format_by_file = {file: detect(file) for file in files if file.stat().st_size}
    if len(set(format_by_file.values())) > 1:
        formats = ", ".join(f"{file.name} ({format_})" for file, format_ in format_by_file.items())
        raise UsageError(f"{str(path)!r} has files of several formats: {formats}; name one file, or pass format=...")
    return next(iter(format_by_file.values()), _WITHOUT_CORPUS)


def _is_closed(path: Path) -> bool:
    return (path / CORPUS).is_file() and (path / QUESTIONS).is_file()


def _questions(path: Path, format_: str, quarantine: Quarantine) -> list[_FileQuestion]:
    """Return the questions of a file or folder. Raises `UsageError` for a file without any entry."""
    question_format = FORMATS[format_]
    files = [path] if format_ == "closed" or not path.is_dir() else files_in(path)
    questions: list[_FileQuestion] = []
    counts: dict[Path, int] = {}
    for file in files:
        before, entries = len(quarantine.entries), 0
        for entry in question_format.entries(file, quarantine):
            entries += 1
            with quarantine.guard(entry.where):
                question = question_format.read(entry)
                # Text that cannot be hashed cannot be used in a task or a document.
                assert all(passage.id for passage in question.context)
                questions.append(_FileQuestion(entry.where, entry.file, question))
        counts[file] = entries + len(quarantine.entries) - before
    refuse_empty(counts)
    return questions


def _named(path: Path, format_: str) -> dict[str, str] | None:
    if format_ == _WITHOUT_CORPUS:
        return None
    return {"file": str(path), "format": format_, _HASH: _hash(path)}


def _hash(path: Path) -> str:
    """Return a hash of the files that hold the passages and questions."""
    total = hashlib.sha256()
    for file in _source_files(path):
        with file.open("rb") as opened:
            total.update(hashlib.file_digest(opened, _HASH).digest())
    return total.hexdigest()[:16]


def _source_files(path: Path) -> Sequence[Path]:
    if not path.is_dir():
        return [path]
    return [path / CORPUS, path / QUESTIONS] if _is_closed(path) else files_in(path)


def _grouped(questions: Sequence[_FileQuestion]) -> list[_FileQuestion]:
    groups = _groups([file_question.question for file_question in questions])
    return [replace(file_question, group=group) for file_question, group in zip(questions, groups, strict=True)]


def _groups(questions: Sequence[Question]) -> list[str]:
    """Return the name of each question's group: questions that share passages, directly or through others."""
    parents: dict[str, str] = {}

    def root(key: str) -> str:
        while parents.setdefault(key, key) != key:
            parents[key] = parents[parents[key]]
            key = parents[key]
        return key

    keys = [_keys(question) for question in questions]
    for first, *others in keys:
        for other in others:
            parent, child = sorted((root(first), root(other)))
            parents[child] = parent
    return [root(first) for first, *_ in keys]


def _keys(question: Question) -> list[str]:
    """Return the keys that no question of another split may share."""
    passage_ids: Iterable[str] = [passage.id for passage in question.evidence]
    page = [f"page {question.page}"] if question.page else []
    return [*page, *passage_ids] or [" ".join(question.text.lower().split())]
