"""Finds tasks that are the same problem, or nearly.

The same: prompt, data and gold have the same tokens, in order. Nearly: the sets of token n-grams of both problems have a
Jaccard similarity of at least a threshold. The search is exact: instead of hashing, it leaves out pairs that cannot
reach the threshold because of their sizes or because their rarest n-grams differ (prefix filtering: Bayardo, Ma and
Srikant, "Scaling up all pairs similarity search", WWW 2007).
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
"""Similarity from which two problems count as nearly the same."""


@dataclass(frozen=True)
class Placed:
    """A task, and where it stands."""

    task: Task
    place: str
    """Its split, or the entry of a suite."""

    def __str__(self) -> str:
        return f"{self.task.id} ({self.place})"


@dataclass(frozen=True)
class Pair:
    """Two tasks that are the same problem, or nearly."""

    one: Placed
    other: Placed
    similarity: float
    """From 0 to 1; 1 means the same tokens in the same order."""

    @property
    def is_exact(self) -> bool:
        """Whether the two are the same problem."""
        return self.similarity == 1.0

    @property
    def is_across(self) -> bool:
        """Whether the two stand in different places, such as two splits."""
        return self.one.place != self.other.place


def find_pairs(tasks: Sequence[Placed], near: float = NEAR) -> list[Pair]:
    """Return the pairs of tasks that are the same problem or nearly, the most similar first.

    Of tasks that are exactly the same, each is paired with the first of them only, which stands for all.

    Args:
        tasks: The tasks to compare, all with all.
        near: The smallest similarity of a pair, above 0; 1 finds only what is exactly the same.
    """
    tokens = [problem_tokens(placed.task) for placed in tasks]
    first: dict[tuple[str, ...], int] = {}
    exact: list[Pair] = []
    for index, found in enumerate(tokens):
        twin = first.setdefault(tuple(found), index)
        if twin != index:
            exact.append(Pair(tasks[twin], tasks[index], 1.0))
    if near >= 1:
        return exact
    kept = list(first.values())
    similar = _similar([set(ngrams(tokens[index], NGRAM)) for index in kept], near)
    # Texts with the same n-grams can still differ, in how often one of them occurs.
    pairs = [Pair(tasks[kept[one]], tasks[kept[other]], min(share, _BELOW_1)) for one, other, share in similar]
    return [*exact, *sorted(pairs, key=lambda pair: -pair.similarity)]


_BELOW_1 = 0.9999
_ROUNDING = 1e-9


def _similar(sets: Sequence[set[tuple[str, ...]]], least: float) -> Iterator[tuple[int, int, float]]:
    """Yield the pairs of sets with a Jaccard similarity of at least `least`, by their indices, and the similarity."""
    counts = Counter(item for one in sets for item in one)
    rarest_first = [sorted(one, key=lambda item: (counts[item], item)) for one in sets]
    seen: Mapping[tuple[str, ...], list[int]] = defaultdict(list)
    for index in sorted(range(len(sets)), key=lambda index: len(sets[index])):
        own = sets[index]
        prefix = rarest_first[index][: len(own) - ceil(least * len(own) - _ROUNDING) + 1]
        for other in dict.fromkeys(one for item in prefix for one in seen[item]):
            if len(sets[other]) >= least * len(own) - _ROUNDING:
                share = len(own & sets[other]) / len(own | sets[other])
                if share >= least:
                    yield min(index, other), max(index, other), share
        for item in prefix:
            seen[item].append(index)
