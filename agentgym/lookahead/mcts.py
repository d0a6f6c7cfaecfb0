"""`Mcts`: Monte Carlo tree search over turns (UCT), as in R-MCTS (arXiv 2410.02052) and CodeTree (arXiv 2411.04329)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, log, sqrt
from typing import get_args

from agentgym.choices import one_of
from agentgym.errors import UsageError
from agentgym.lookahead.explorer import Explorer
from agentgym.lookahead.line import Line
from agentgym.lookahead.strategy import Evaluate, best, check_from_1, ends_of, settings_of


@dataclass(eq=False)
class Node:
    """A line in the tree."""

    line: Line
    parent: Node | None = None
    children: list[Node] = field(default_factory=list)
    visits: int = 0
    total: float = 0.0
    """Sum of the scores backed up to here."""
    score: float = 0.0
    """Its own score, when it was added."""

    def urgency(self, explore: float) -> float:
        """Return its upper confidence bound, by which a parent chooses among its children."""
        if self.parent is None or not self.visits:
            return inf
        return self.total / self.visits + explore * sqrt(log(max(1, self.parent.visits)) / self.visits)

    def back_up(self, score: float) -> None:
        """Count a score here and in all that lead here."""
        node: Node | None = self
        while node is not None:
            node.visits += 1
            node.total += score
            node = node.parent


@dataclass(frozen=True)
class Mcts:
    """In each iteration, goes down the tree to the most promising line, samples its next turns and scores them.

    All lines that come to an end, in the tree or in a rollout, can be chosen. If none does, the most visited line is
    played on.
    """

    iterations: int = 16
    """Number of times that a line is expanded."""
    branch: int = 3
    """Number of samples for the next turn of a line."""
    explore: float = 1.0
    """Weight of what was seldom tried (UCT's constant), for scores from 0 to 1."""
    evaluate: Evaluate = "rollout"
    """`"rollout"` scores a line by one that is played on from it to the end, `"value"` as it stands."""

    def __post_init__(self) -> None:
        check_from_1(self, "iterations", "branch")
        one_of("evaluate", self.evaluate, get_args(Evaluate))
        if not (isinstance(self.explore, int | float) and 0 <= self.explore < inf):
            raise UsageError(f"explore must be a number from 0, not {self.explore!r}")

    @property
    def name(self) -> str:
        """The name, with all settings."""
        return f"mcts:{settings_of(self)}"

    @property
    def places(self) -> int:
        """The samples of one line are played at once; iterations follow each other."""
        return self.branch

    async def search(self, explorer: Explorer) -> Line:
        """Return the best line that came to an end."""
        root, ends = Node(await explorer.root()), list[Line]()
        for _ in range(self.iterations):
            if explorer.is_late:
                break
            node = self._selected(root)
            if node.line.is_over:
                node.back_up(node.score)
            else:
                ends += await self._expand(explorer, node, ends)
        if not ends:
            ends = [await explorer.complete(_most_visited(root).line)]
        return best(ends, await explorer.scores(ends))

    def _selected(self, root: Node) -> Node:
        node = root
        while node.children:
            node = max(node.children, key=lambda child: child.urgency(self.explore))
        return node

    async def _expand(self, explorer: Explorer, node: Node, known: Sequence[Line]) -> list[Line]:
        """Add the children of a node and back up their scores; return what came to an end.

        Rollouts are scored beside the ends that are known, for value functions that compare.
        """
        lines = await explorer.children(node.line, self.branch)
        ends = await ends_of(explorer, lines, self.evaluate)
        beside = list(known) if self.evaluate == "rollout" else []
        scores = (await explorer.scores([*beside, *ends]))[len(beside) :]
        for line, score in zip(lines, scores, strict=True):
            child = Node(line, node, score=max(score, 0.0))
            node.children.append(child)
            child.back_up(child.score)
        return [end for end in ends if end.is_over]


def _most_visited(root: Node) -> Node:
    node = root
    while node.children:
        node = max(node.children, key=lambda child: child.visits)
    return node
