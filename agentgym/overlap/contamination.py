"""Finds tasks whose prompts appear in a text set, such as training data, by shared runs of words.

As in "Language models are few-shot learners" (Brown et al. 2020, arXiv 2005.14165, appendix C), case and punctuation do
not count, and a run has 13 words. Prompts of 8 to 12 words are compared as a whole and shorter ones not at all, because
short runs match by chance. Runs that occur in more than ten tasks belong to a template and do not count either.
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
"""Fewest words of a prompt that is compared."""
COMMON = 10
"""Runs that occur in more tasks than this do not count."""
_TEXTS = (".txt", ".md", ".rst", ".py", ".sql", ".html", ".csv", ".tsv", ".yaml", ".yml")
_RECORDS = (".json", ".jsonl")
_PIECE, _SHARED = 4_000_000, 20_000
"""Characters of a piece of a long text, and of its overlap with the next piece, which is longer than any run."""


@dataclass(frozen=True)
class TextHit:
    """A task whose prompt shares a run of words with a text."""

    task: Task
    where: str
    """The text: a file, and for JSON lines the line."""
    run: str
    """The first shared run of words."""


@dataclass(frozen=True)
class Contamination:
    """The overlap of a text set with tasks."""

    hits: Sequence[TextHit]
    """The first hit of each task."""
    compared: int
    """Number of tasks whose prompts were compared."""
    too_short: int
    """Number of tasks whose prompts are too short."""
    texts: int
    """Number of texts."""


def find_in_texts(tasks: Sequence[Task], texts: Iterable[tuple[str, str]], size: int = NGRAM) -> Contamination:
    """Search texts for the prompts of tasks, in one pass.

    Args:
        tasks: The tasks.
        texts: Pairs of a place and a text; a long text may be in overlapping pieces.
        size: Words in a run, at least 8.

    Raises:
        UsageError: `size` is too small.
    """
    if size < SHORTEST:
        raise UsageError(f"runs of fewer than {SHORTEST} words match by chance; {size} is too few")
    owners, compared = _owners(tasks, size)
    sizes = sorted({len(run) for run in owners})
    hits: dict[str, TextHit] = {}
    count, before = 0, None
    for where, text in texts:
        count += where != before
        before = where
        words = words_of(text)
        for length in sizes:
            for run in ngrams(words, length) if len(words) >= length else ():
                for index in owners.get(run, ()):
                    hits.setdefault(tasks[index].id, TextHit(tasks[index], where, " ".join(run)))
    return Contamination(list(hits.values()), compared, len(tasks) - compared, count)


def _owners(tasks: Sequence[Task], size: int) -> tuple[dict[tuple[str, ...], list[int]], int]:
    """Return the tasks that contain each distinctive run of words, and the number of prompts that are long enough."""
    owners: dict[tuple[str, ...], list[int]] = defaultdict(list)
    compared = 0
    for index, task in enumerate(tasks):
        words = words_of(task.prompt)
        if len(words) >= SHORTEST:
            compared += 1
            for run in set(ngrams(words, size)):
                owners[run].append(index)
    return {run: indices for run, indices in owners.items() if len(indices) <= COMMON}, compared


def texts_in(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the texts of a file or of all readable files of a folder, each with its place.

    Each line of a `.jsonl` file and each item of a list in a `.json` file is a text made of all its strings. A long
    plain text is split into overlapping pieces.

    Raises:
        UsageError: The path does not exist or holds no text, or a file is malformed.
    """
    if not path.exists():
        raise UsageError(f"the file or folder {str(path)!r} does not exist")
    files = sorted(file for file in path.rglob("*") if file.suffix in (*_TEXTS, *_RECORDS)) if path.is_dir() else [path]
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
    """Yield the text of a file in pieces; each starts with the end of the previous one."""
    end = ""
    while new := file.read(_PIECE):
        yield end + new
        end = new[-_SHARED:]


def _strings(value: Any) -> str:
    """Return all strings in JSON data as one text."""
    texts: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            texts.append(item)
        elif isinstance(item, dict):
            waiting.extend(reversed(list(item.values())))
        elif isinstance(item, list):
            waiting.extend(reversed(item))
    return "\n".join(texts)
