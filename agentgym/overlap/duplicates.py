"""Finds tasks that are the same problem, or nearly.

Problems are the same if prompt, data and gold have the same tokens in the same order, and nearly the same if the sets
of their token n-grams have a Jaccard similarity of at least a threshold. The search is exact: instead of hashing, it
skips pairs that cannot reach the threshold because of their sizes or because their rarest n-grams differ (prefix
filtering: Bayardo, Ma and Srikant, "Scaling up all pairs similarity search", WWW 2007).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from agentgym.overlap.words import ngrams, problem_tokens
from agentgym.task import Task

NGRAM = 3
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
    similar = _similar([set(ngrams(tokens[index], NGRAM)) for index in distinct], near)
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
