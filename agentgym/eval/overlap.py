"""Finds tasks whose prompts appear in a text set, such as training data, by shared runs of words.

As in "Language models are few-shot learners" (Brown et al. 2020, arXiv 2005.14165, appendix C), case and punctuation do
not count, and a run has 13 words. Prompts of 8 to 12 words are compared as a whole and shorter ones not at all, because
short runs match by chance. Runs that occur in more than ten tasks belong to a template and do not count either.
"""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from math import ceil
from pathlib import Path
from typing import Any, TextIO

from agentgym.base.errors import UsageError
from agentgym.core.task import TEST, TRAIN, Task, split_of

_ASCII_WORD = re.compile(r"\w+", re.ASCII)
_ASCII_TOKEN = re.compile(r"\w+|[^\w\s]+", re.ASCII)
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\U00020000-\U0003ffff"
)
"""Scripts without spaces between words, as ranges of characters."""
_WIDE = re.compile("[\uff00-\uffef\u3000]+")
"""Full-width Latin letters and signs, and half-width Japanese ones."""
_OPTIONAL = "\u0591-\u05c7\u0640\u064b-\u065f\u0670\ufe00-\ufe0f"
"""Optional characters: Hebrew points, Arabic vowels and lengthening, variants of emojis."""


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return _patterns().word.findall(_normal(text))


def _tokens_of(text: str) -> list[str]:
    """Return the words of a text and the runs of punctuation between them."""
    if text.isascii():
        return _ASCII_TOKEN.findall(text.lower())
    return _patterns().token.findall(_normal(text))


def _normal(text: str) -> str:
    """Return a text normalised in case and encoding, without invisible characters."""
    narrow = _WIDE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)
    return _patterns().unseen.sub("", unicodedata.normalize("NFC", narrow.casefold()))


class _Patterns:
    """Patterns for texts in any script. Python's `\\w` excludes the vowel signs of Indic scripts, for example."""

    def __init__(self) -> None:
        marks = _of_category("M")
        character = rf"(?:[{_UNSPACED}][{marks}]*|(?:(?![{_UNSPACED}])[\w{marks}])+)"
        self.word = re.compile(character)
        self.token = re.compile(rf"{character}|[^\w\s{marks}{_UNSPACED}]+")
        self.unseen = re.compile(rf"[{_OPTIONAL}{_of_category('Cf')}]")


@cache
def _patterns() -> _Patterns:
    return _Patterns()


def _of_category(category: str) -> str:
    """Return the characters of a Unicode category as ranges for a pattern."""
    codes = [code for code in range(128, sys.maxunicode + 1) if unicodedata.category(chr(code)).startswith(category)]
    runs = [[code for _, code in run] for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0])]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)


def problem_tokens(task: Task) -> list[str]:
    """Return the words of a problem (prompt, data and gold) and the runs of punctuation between them.

    Punctuation counts because it is part of the meaning of code and queries. Runs of it stay together: as single tokens
    they would make any two mazes alike. The task's own id and split do not count.
    """
    texts = [task.prompt, *_leaves(task.data, (task.id, task.split)), *_leaves(task.gold, (task.id, task.split))]
    return [token for text in texts for token in _tokens_of(text)]


def ngrams(words: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """Yield all runs of `size` words or tokens; a shorter text is one run."""
    if words:
        for start in range(max(1, len(words) - size + 1)):
            yield tuple(words[start : start + size])


def _leaves(value: Any, no_content: tuple[str, ...]) -> Iterator[str]:
    """Yield the keys and values of plain data as texts, in order of the keys."""
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield str(key)
            yield from _leaves(value[key], no_content)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item, no_content)
    elif value not in no_content:
        yield str(value)


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


DUPLICATES_NGRAM = 3
"""Tokens in a run."""
NEAR = 0.9
"""Least similarity of problems that count as nearly the same."""


@dataclass(frozen=True)
class LocatedTask:
    """A task and its place."""

    task: Task
    place: str
    """The task's split, or its entry in a suite."""

    def __str__(self) -> str:
        return f"{self.task.id} ({self.place})"


@dataclass(frozen=True)
class TaskPair:
    """Two tasks that are the same problem, or nearly."""

    one: LocatedTask
    other: LocatedTask
    similarity: float
    """From 0 to 1; 1 means the same tokens in the same order."""

    @property
    def is_exact(self) -> bool:
        """Whether the two are the same problem."""
        return self.similarity == 1.0

    @property
    def is_across(self) -> bool:
        """Whether the two are in different places, such as two splits."""
        return self.one.place != self.other.place


def find_pairs(tasks: Sequence[LocatedTask], near: float = NEAR) -> list[TaskPair]:
    """Return the pairs of tasks that are the same problem or nearly, the most similar first.

    Equal tasks are each paired only with the first of them; it represents them in other pairs.

    Args:
        tasks: The tasks to compare, each with all others.
        near: The least similarity of a pair, above 0; 1 finds only equal problems.
    """
    tokens = [problem_tokens(located.task) for located in tasks]
    first: dict[tuple[str, ...], int] = {}
    exact: list[TaskPair] = []
    for index, words in enumerate(tokens):
        twin = first.setdefault(tuple(words), index)
        if twin != index:
            exact.append(TaskPair(tasks[twin], tasks[index], 1.0))
    if near >= 1:
        return exact
    distinct = list(first.values())
    similar = _similar([set(ngrams(tokens[index], DUPLICATES_NGRAM)) for index in distinct], near)
    # Texts with the same set of n-grams may still differ in their order and number.
    pairs = [
        TaskPair(tasks[distinct[index]], tasks[distinct[other]], min(share, _BELOW_1))
        for index, other, share in similar
    ]
    return [*exact, *sorted(pairs, key=lambda pair: -pair.similarity)]


_BELOW_1 = 0.9999
_ROUNDING = 1e-9


def _similar(sets: Sequence[set[tuple[str, ...]]], least: float) -> Iterator[tuple[int, int, float]]:
    """Yield the indices of each pair of sets with a Jaccard similarity of at least `least`, and the similarity."""
    counts = Counter(item for items in sets for item in items)
    rarest_first = [sorted(items, key=lambda item: (counts[item], item)) for items in sets]
    holders: Mapping[tuple[str, ...], list[int]] = defaultdict(list)
    for index in sorted(range(len(sets)), key=lambda index: len(sets[index])):
        own = sets[index]
        prefix = rarest_first[index][: len(own) - ceil(least * len(own) - _ROUNDING) + 1]
        for other in dict.fromkeys(holder for item in prefix for holder in holders[item]):
            if len(sets[other]) >= least * len(own) - _ROUNDING:
                share = len(own & sets[other]) / len(own | sets[other])
                if share >= least:
                    yield min(index, other), max(index, other), share
        for item in prefix:
            holders[item].append(index)


def split_tasks(tasks: Sequence[Task], test: float, near: float = NEAR) -> dict[str, list[Task]]:
    """Return the tasks of `train` and of `test`, in their original order, with their new split.

    Tasks that are nearly the same, directly or through others, stay together. The content of such a cluster determines
    its split, so that the order and ids of the tasks and the other clusters do not matter.

    Args:
        tasks: The tasks.
        test: Expected share of `test`, above 0 and below 1.
        near: Least similarity of problems that are nearly the same (`duplicates.find_pairs`).

    Raises:
        UsageError: `test` is out of range, or one of the splits would be empty.
    """
    if not 0 < test < 1:
        raise UsageError(f"the share of test must be above 0 and below 1, not {test}")
    clusters = _clusters(tasks, near)
    contents: dict[int, str] = {}
    for index, cluster in enumerate(clusters):
        contents[cluster] = min(contents.get(cluster, tasks[index].hash), tasks[index].hash)
    divided: dict[str, list[Task]] = {TRAIN: [], TEST: []}
    for task, cluster in zip(tasks, clusters, strict=True):
        split = split_of(contents[cluster], {TRAIN: 1 - test, TEST: test})
        divided[split].append(replace(task, split=split))
    if empty := [split for split, members in divided.items() if not members]:
        count = len(set(clusters))
        raise UsageError(
            f"{len(tasks)} tasks form {count} cluster(s) of similar ones, all in one split, so {empty[0]!r} would be "
            "empty: add tasks, or choose another share or similarity"
        )
    return divided


def _clusters(tasks: Sequence[Task], near: float) -> list[int]:
    """Return for each task the index of the first one of its cluster."""
    first = list(range(len(tasks)))

    def root(index: int) -> int:
        while first[index] != index:
            first[index] = first[first[index]]
            index = first[index]
        return index

    for pair in find_pairs([LocatedTask(task, str(index)) for index, task in enumerate(tasks)], near):
        low, high = sorted((root(int(pair.one.place)), root(int(pair.other.place))))
        first[high] = low
    return [root(index) for index in range(len(tasks))]
