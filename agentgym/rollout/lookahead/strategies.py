"""Search strategies over lines of play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import inf, log, sqrt
from typing import Literal, Protocol, get_args

from agentgym.base.choices import one_of
from agentgym.base.errors import UsageError
from agentgym.rollout.lookahead.explorer import Explorer
from agentgym.rollout.lookahead.line import PlayLine
from agentgym.rollout.lookahead.voice import together

Evaluate = Literal["value", "rollout"]
"""Whether to score an unfinished line as it stands, or by a rollout from it to the end."""


class Strategy(Protocol):
    """A search over lines of play."""

    @property
    def name(self) -> str:
        """The name with all settings, in the notation of `--search`."""
        ...

    @property
    def places(self) -> int:
        """Largest number of environments to use at once."""
        ...

    async def search(self, explorer: Explorer) -> PlayLine:
        """Return the chosen line, which is over."""
        ...


def best(lines: Sequence[PlayLine], scores: Sequence[float]) -> PlayLine:
    """Return the line with the highest score; of several, the first."""
    return max(zip(lines, scores, strict=True), key=lambda pair: pair[1])[0]


async def ends_of(explorer: Explorer, lines: Sequence[PlayLine], evaluate: Evaluate) -> list[PlayLine]:
    """Return the line to score in place of each line: the line itself, or a rollout from it to the end."""
    if evaluate == "value":
        return list(lines)
    return await together(explorer.complete(line) for line in lines)


def settings_of(strategy: object) -> str:
    """Return the settings of a strategy, in the notation of `--search`."""
    values = ((setting.name, getattr(strategy, setting.name)) for setting in fields(strategy))  # type: ignore[arg-type]
    return ",".join(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in values)


def check_from_1(strategy: object, *names: str) -> None:
    """Raise `UsageError` unless these settings are whole numbers from 1."""
    for name in names:
        value = getattr(strategy, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError(f"{name} must be a whole number from 1, not {value!r}")


@dataclass(frozen=True)
class BestOfN:
    """Plays n episodes and chooses one. It need not restore a state, so it works with every environment."""

    n: int
    """Number of episodes."""

    def __post_init__(self) -> None:
        check_from_1(self, "n")

    @property
    def name(self) -> str:
        """The name, with all settings."""
        return f"best-of-n:{settings_of(self)}"

    @property
    def places(self) -> int:
        """All episodes run at once."""
        return self.n

    async def search(self, explorer: Explorer) -> PlayLine:
        """Return the best episode."""
        ends = await together(explorer.episode(number) for number in range(self.n))
        return best(ends, await explorer.scores(ends))


@dataclass(frozen=True)
class Beam:
    """In each turn, samples several next turns of each line in the beam, and keeps the best lines.

    A line that has ended stays while it is among the best. With a width of 1, this is best-of-n for each turn.
    """

    width: int = 4
    """Number of lines in the beam."""
    branch: int = 3
    """Number of samples for the next turn of each."""
    evaluate: Evaluate = "value"
    """`"value"` scores each line as it stands, `"rollout"` by a rollout from it to the end, which can be chosen too."""

    def __post_init__(self) -> None:
        check_from_1(self, "width", "branch")
        one_of("evaluate", self.evaluate, get_args(Evaluate))

    @property
    def name(self) -> str:
        """The name, with all settings."""
        return f"beam:{settings_of(self)}"

    @property
    def places(self) -> int:
        """Number of turns that are tried at once."""
        return self.width * self.branch

    async def search(self, explorer: Explorer) -> PlayLine:
        """Return the best line of the last beam, or the best rollout."""
        beam, rollouts = [await explorer.root()], list[PlayLine]()
        while not all(line.is_over for line in beam):
            families = await together(self._next(explorer, line) for line in beam)
            lines = _by_rank(families)
            ends = await ends_of(explorer, lines, self.evaluate)
            rollouts += [end for end, line in zip(ends, lines, strict=True) if end is not line]
            beam = _best_of(lines, await explorer.scores(ends), self.width)
        lines = [*beam, *rollouts]
        return best(lines, await explorer.scores(lines))

    async def _next(self, explorer: Explorer, line: PlayLine) -> list[PlayLine]:
        return [line] if line.is_over else await explorer.children(line, self.branch)


def _by_rank(families: Sequence[Sequence[PlayLine]]) -> list[PlayLine]:
    """Return all lines, the first of each family before the second of any, so that ties keep several families."""
    ranked = [(rank, number, line) for number, family in enumerate(families) for rank, line in enumerate(family)]
    return [line for _, _, line in sorted(ranked, key=lambda entry: entry[:2])]


def _best_of(lines: Sequence[PlayLine], scores: Sequence[float], width: int) -> list[PlayLine]:
    order = sorted(range(len(lines)), key=lambda number: -scores[number])
    return [lines[number] for number in order[:width]]


@dataclass(eq=False)
class SearchNode:
    """A node of the search tree."""

    line: PlayLine
    parent: SearchNode | None = None
    children: list[SearchNode] = field(default_factory=list)
    visits: int = 0
    total: float = 0.0
    """Sum of the scores backed up to this node."""
    score: float = 0.0
    """The node's own score when it was added."""

    def urgency(self, explore: float) -> float:
        """Return the upper confidence bound, which decides between the children of a node."""
        if self.parent is None or not self.visits:
            return inf
        return self.total / self.visits + explore * sqrt(log(max(1, self.parent.visits)) / self.visits)

    def back_up(self, score: float) -> None:
        """Add a score to this node and all its ancestors."""
        node: SearchNode | None = self
        while node is not None:
            node.visits += 1
            node.total += score
            node = node.parent


@dataclass(frozen=True)
class Mcts:
    """In each iteration, descends the tree to the most promising line, samples its next turns and scores them (UCT).

    As in R-MCTS (arXiv 2410.02052) and CodeTree (arXiv 2411.04329).

    The search chooses between all lines that end, in the tree or in a rollout. If none ends, it completes the most
    visited line.
    """

    iterations: int = 16
    """Number of times that a line is expanded."""
    branch: int = 3
    """Number of samples for the next turn of a line."""
    explore: float = 1.0
    """Weight of rarely visited lines (UCT's constant), for scores from 0 to 1."""
    evaluate: Evaluate = "rollout"
    """`"rollout"` scores a line by a rollout from it to the end, `"value"` as it stands."""

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
        """The samples of one line are played at once; iterations are sequential."""
        return self.branch

    async def search(self, explorer: Explorer) -> PlayLine:
        """Return the best line that has ended."""
        root, ends = SearchNode(await explorer.root()), list[PlayLine]()
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

    def _selected(self, root: SearchNode) -> SearchNode:
        node = root
        while node.children:
            node = max(node.children, key=lambda child: child.urgency(self.explore))
        return node

    async def _expand(self, explorer: Explorer, node: SearchNode, ends_before: Sequence[PlayLine]) -> list[PlayLine]:
        """Add the children of a node and back up their scores; return the lines that have ended.

        Rollouts are scored together with the earlier ends, for value functions that compare lines.
        """
        lines = await explorer.children(node.line, self.branch)
        ends = await ends_of(explorer, lines, self.evaluate)
        others = list(ends_before) if self.evaluate == "rollout" else []
        scores = (await explorer.scores([*others, *ends]))[len(others) :]
        for line, score in zip(lines, scores, strict=True):
            child = SearchNode(line, node, score=max(score, 0.0))
            node.children.append(child)
            child.back_up(child.score)
        return [end for end in ends if end.is_over]


def _most_visited(root: SearchNode) -> SearchNode:
    node = root
    while node.children:
        node = max(node.children, key=lambda child: child.visits)
    return node
