"""Finds tasks whose prompts appear in a text set, such as training data, by runs of words that both have.

As in "Language models are few-shot learners" (Brown et al. 2020, arXiv 2005.14165, appendix C): case and punctuation do
not count, and a run has 13 words. Prompts of 8 to 12 words are looked for as a whole, shorter ones not at all, because
short runs are shared by chance. Runs that more than ten of the tasks have are the wording of their template, and do not
count either.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from agentgym.errors import UsageError
from agentgym.overlap.words import ngrams, words_of
from agentgym.task import Task

NGRAM = 13
SHORTEST = 8
"""Prompts of fewer words are not looked for."""
COMMON = 10
"""Runs that more tasks than this have are left out."""
_TEXTS = (".txt", ".md", ".rst", ".py", ".sql", ".html", ".csv", ".tsv", ".yaml", ".yml")
_RECORDS = (".json", ".jsonl")
_PIECE, _SHARED = 4_000_000, 20_000
"""Characters of a piece of a long text, and of what it shares with the next: more than any run of words."""


@dataclass(frozen=True)
class Hit:
    """A task whose prompt shares a run of words with a text."""

    task: Task
    where: str
    """The text: a file, and for JSON lines the line."""
    run: str
    """The first shared run of words."""


@dataclass(frozen=True)
class Contamination:
    """What a text set shares with tasks."""

    hits: Sequence[Hit]
    """The first for each task."""
    compared: int
    """Number of tasks whose prompts were looked for."""
    too_short: int
    """Number of tasks whose prompts are too short."""
    texts: int
    """Number of texts."""


def find_in_texts(tasks: Sequence[Task], texts: Iterable[tuple[str, str]], size: int = NGRAM) -> Contamination:
    """Look for the prompts of tasks in texts, which are read once and not kept.

    Args:
        tasks: The tasks.
        texts: Pairs of a place and a text; a long text may come in pieces that overlap.
        size: Words in a run, at least 8.

    Raises:
        UsageError: `size` is too small.
    """
    if size < SHORTEST:
        raise UsageError(f"runs of fewer than {SHORTEST} words are shared by chance; {size} is too few")
    owners, compared = _owners(tasks, size)
    sizes = sorted({len(run) for run in owners})
    hits: dict[str, Hit] = {}
    count, before = 0, None
    for where, text in texts:
        count += where != before
        before = where
        words = words_of(text)
        for length in sizes:
            for run in ngrams(words, length) if len(words) >= length else ():
                for index in owners.get(run, ()):
                    hits.setdefault(tasks[index].id, Hit(tasks[index], where, " ".join(run)))
    return Contamination(list(hits.values()), compared, len(tasks) - compared, count)


def _owners(tasks: Sequence[Task], size: int) -> tuple[dict[tuple[str, ...], list[int]], int]:
    """Return which tasks have each run of words that tells them from others, and how many tasks were long enough."""
    owners: dict[tuple[str, ...], list[int]] = defaultdict(list)
    compared = 0
    for index, task in enumerate(tasks):
        words = words_of(task.prompt)
        if len(words) >= SHORTEST:
            compared += 1
            for run in set(ngrams(words, size)):
                owners[run].append(index)
    return {run: some for run, some in owners.items() if len(some) <= COMMON}, compared


def texts_in(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the texts of a file or of all readable files of a folder, each with its place.

    Each line of a `.jsonl` file is a text, with all strings in it, and so is each item of a list in a `.json` file. A
    long file of plain text comes in pieces that overlap.

    Raises:
        UsageError: There is no such file or folder, it holds no text, or a file is malformed.
    """
    if not path.exists():
        raise UsageError(f"there is no file or folder {str(path)!r}")
    files = sorted(one for one in path.rglob("*") if one.suffix in (*_TEXTS, *_RECORDS)) if path.is_dir() else [path]
    if not files:
        raise UsageError(f"{str(path)!r} holds no text; the endings read are {', '.join((*_TEXTS, *_RECORDS))}")
    for file in files:
        yield from _texts_of(file)


def _texts_of(file: Path) -> Iterator[tuple[str, str]]:
    try:
        with file.open(encoding="utf-8", errors="replace") as opened:
            if file.suffix == ".jsonl":
                for number, line in enumerate(opened, start=1):
                    if line.strip():
                        yield f"{file}:{number}", _strings(json.loads(line))
            elif file.suffix == ".json":
                data = json.load(opened)
                for number, item in enumerate(data if isinstance(data, list) else [data]):
                    yield f"{file}[{number}]", _strings(item)
            else:
                yield from ((str(file), piece) for piece in _pieces(opened))
    except OSError as error:
        raise UsageError(f"cannot read {str(file)!r}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file}: not valid JSON: {error}") from error


def _pieces(file: TextIO) -> Iterator[str]:
    """Yield the text of a file in pieces, each of which begins with the end of the one before."""
    kept = ""
    while new := file.read(_PIECE):
        yield kept + new
        kept = new[-_SHARED:]


def _strings(value: Any) -> str:
    """Return all strings in JSON data as one text."""
    found: list[str] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, dict):
            waiting.extend(reversed(list(one.values())))
        elif isinstance(one, list):
            waiting.extend(reversed(one))
    return "\n".join(found)
