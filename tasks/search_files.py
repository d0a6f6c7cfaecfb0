"""`SearchFileTasks`: questions of public sets, over a closed corpus of the passages that come with them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from agentgym.errors import TaskError, UsageError
from agentgym.task import TEST, TRAIN, VALIDATION, Task, TaskList, split_of
from agentgym.tasks.search.file_formats import (
    CORPUS,
    QUESTIONS,
    READERS,
    Passage,
    Question,
    detect,
    read_closed_corpus,
)
from agentgym.tools.index.base import Document

SHARES = {TRAIN: 0.8, VALIDATION: 0.1, TEST: 0.1}
"""Shares of the splits."""
_HASH = "sha256"


class SearchFileTasks(TaskList):
    """Questions of one file (or folder), with splits that share no evidence.

    Questions that need a common passage are in the same split, however long the chain that links them; SQuAD's are
    in the same split by article. Questions without passages go by their text.

    Args:
        path: A file of SQuAD, HotpotQA, 2WikiMultihopQA, MuSiQue or NQ-open, or a folder with `corpus.jsonl` and
            `questions.jsonl`.
        format: `squad`, `hotpotqa`, `2wiki`, `musique`, `open` or `closed`; `auto` looks at what the file holds.
    """

    def __init__(self, path: str | Path, format: str = "auto"):
        self.path = Path(path)
        if not self.path.exists():
            raise UsageError(f"there is no file or folder {str(path)!r}")
        if format != "auto" and format not in READERS:
            raise UsageError(f"unknown format {format!r}; choose from: auto, {', '.join(READERS)}")
        self.format = detect(self.path) if format == "auto" else format
        self.corpus: dict[str, str] | None = _named(self.path, self.format)
        """What `documents_of` makes the documents of; `None` for a format without passages."""
        questions = list(READERS[self.format](self.path))
        if not questions:
            raise UsageError(f"{str(path)!r} holds no question")
        groups = _groups(questions)
        super().__init__(self._task(question, groups[i]) for i, question in enumerate(questions))

    @cached_property
    def documents(self) -> list[Document]:
        """The closed corpus: every passage once."""
        return list(documents_of_file(self.corpus)) if self.corpus else []

    def _task(self, question: Question, group: str) -> Task:
        evidence = [passage.id for passage in question.evidence]
        hops = [{"query": passage.title, "document": passage.id} for passage in question.evidence]
        return Task(
            id=f"{self.path.stem}/{question.id}",
            split=split_of(group, SHARES),
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
    """Yield every passage of a file once. Raises `TaskError` if the file is gone, or not what it was."""
    path, format_ = Path(str(corpus["file"])), str(corpus.get("format", ""))
    if format_ not in READERS or not path.exists():
        raise TaskError(f"no corpus {dict(corpus)!r}: the file is gone, or the format none of {', '.join(READERS)}")
    if _HASH in corpus and corpus[_HASH] != _hash(path):
        raise TaskError(f"{str(path)!r} is not the file that the task was made from; make the tasks again")
    seen: set[str] = set()
    for passage in _passages(path, format_):
        if passage.id not in seen:
            seen.add(passage.id)
            yield Document(passage.id, passage.title, passage.text)


def _passages(path: Path, format_: str) -> Iterator[Passage]:
    if format_ == "closed":
        return read_closed_corpus(path)
    return (passage for question in READERS[format_](path) for passage in question.context)


def _named(path: Path, format_: str) -> dict[str, str] | None:
    if format_ == "open":
        return None
    return {"file": str(path), "format": format_, _HASH: _hash(path)}


def _hash(path: Path) -> str:
    """Return a hash of the files that hold the passages and questions."""
    total = hashlib.sha256()
    for file in [path / CORPUS, path / QUESTIONS] if path.is_dir() else [path]:
        with file.open("rb") as opened:
            total.update(hashlib.file_digest(opened, _HASH).digest())
    return total.hexdigest()[:16]


def _groups(questions: list[Question]) -> list[str]:
    """Return for each question a name of the group of questions that it shares passages with, if only by others."""
    parents: dict[str, str] = {}

    def root(key: str) -> str:
        while parents.setdefault(key, key) != key:
            parents[key] = parents[parents[key]]
            key = parents[key]
        return key

    keys = [_keys(question) for question in questions]
    for first, *others in keys:
        for other in others:
            one, two = sorted((root(first), root(other)))
            parents[two] = one
    return [root(first) for first, *_ in keys]


def _keys(question: Question) -> list[str]:
    """Return what a question must not share with one of another split."""
    found: Iterable[str] = [passage.id for passage in question.evidence]
    page = [f"page {question.page}"] if question.page else []
    return [*page, *found] or [" ".join(question.text.lower().split())]
