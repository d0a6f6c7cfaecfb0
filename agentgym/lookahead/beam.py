"""`Beam`: beam search over turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from agentgym.choices import one_of
from agentgym.lookahead.explorer import Explorer
from agentgym.lookahead.line import Line
from agentgym.lookahead.strategy import Evaluate, best, check_from_1, ends_of, settings_of
from agentgym.lookahead.together import together


@dataclass(frozen=True)
class Beam:
    """In each turn, samples several next turns of each kept line, and keeps the best of them all.

    A line that has ended stays as long as it is among the best. With a width of 1 it is best-of-n of each turn.
    """

    width: int = 4
    """Number of lines that are kept."""
    branch: int = 3
    """Number of samples for the next turn of each."""
    evaluate: Evaluate = "value"
    """`"value"` scores each line as it stands, `"rollout"` by a line that is played on from it to the end; such lines
    can be chosen too."""

    def __post_init__(self) -> None:
        check_from_1(self, "width", "branch")
        one_of("evaluate", self.evaluate, get_args(Evaluate))

    @property
    def name(self) -> str:
        """The name, with all settings."""
        return f"beam:{settings_of(self)}"

    @property
    def places(self) -> int:
        """All turns that are tried at once."""
        return self.width * self.branch

    async def search(self, explorer: Explorer) -> Line:
        """Return the best line of the last beam, or the best rollout."""
        beam, rollouts = [await explorer.root()], list[Line]()
        while not all(line.is_over for line in beam):
            families = await together(self._next(explorer, line) for line in beam)
            lines = _by_rank(families)
            ends = await ends_of(explorer, lines, self.evaluate)
            rollouts += [end for end, line in zip(ends, lines, strict=True) if end is not line]
            beam = _kept(lines, await explorer.scores(ends), self.width)
        found = [*beam, *rollouts]
        return best(found, await explorer.scores(found))

    async def _next(self, explorer: Explorer, line: Line) -> list[Line]:
        return [line] if line.is_over else await explorer.children(line, self.branch)


def _by_rank(families: Sequence[Sequence[Line]]) -> list[Line]:
    """Return all lines, the first of each family before the second of any: ties then keep several families."""
    ranked = [(rank, number, line) for number, family in enumerate(families) for rank, line in enumerate(family)]
    return [line for _, _, line in sorted(ranked, key=lambda one: one[:2])]


def _kept(lines: Sequence[Line], scores: Sequence[float], width: int) -> list[Line]:
    order = sorted(range(len(lines)), key=lambda number: -scores[number])
    return [lines[number] for number in order[:width]]
