"""AdaSearch's first stage: the policy decides whether to search at all (arXiv 2512.16883).

`decision_f1` measures these decisions. The positive class is "no search needed", so a policy that always searches has
an F1 of 0. The label comes from the task, or from how often a model solves it without searching (`labels`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from agentgym.base.errors import ToolError, UsageError
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.rewards import Channel
from agentgym.core.task import Task
from agentgym.core.toolset import tool
from agentgym.core.trajectory import Trajectory
from agentgym.envs.search.playing import Hop, Mode, ModePart
from agentgym.eval.statistics import Decisions
from agentgym.tasks.search.questions import Feature

DECIDED, KNOWN, RIGHT = "decided", "decided_known", "decision"


class SearchDecision(StrEnum):
    """Whether to search for the answer to a question."""

    KNOW = "know"
    SEARCH = "search"


@dataclass(frozen=True)
class Deciding(Mode):
    """Ask the policy to decide, before anything else, whether to search (AdaSearch)."""

    needs_search: Mapping[str, bool] = field(default_factory=dict)
    """Whether a task needs a search, by task id (see `labels`). Other tasks have a label of their own."""

    first = True
    rule = "First decide whether you need to search."
    channels = {
        DECIDED: Channel("1 for deciding whether to search", cheap=True),
        KNOWN: Channel("1 for deciding that no search is needed", cheap=True),
        RIGHT: Channel("1 if the decision was right", cheap=True),
        "rightly_searched": Channel("1 for deciding to search if the task needs a search", cheap=True),
        "rightly_known": Channel("1 for deciding that no search is needed if that is right", cheap=True),
    }

    def __post_init__(self) -> None:
        if not isinstance(self.needs_search, Mapping):
            raise UsageError(f"needs_search must say true or false for each task id, not {self.needs_search!r}")

    def part(self, env: Env) -> Decider:
        """Return the decider of an environment."""
        return Decider(env, self.needs_search)

    @classmethod
    def figures(cls, trajectories: Iterable[Trajectory]) -> Mapping[str, float]:
        """Return precision, recall and F1 of the decisions."""
        return decision_f1(trajectories)


class Decider(ModePart):
    """Asks for a decision first, enforces it, and rewards it."""

    _way: SearchDecision | None = None

    def __init__(self, env: Env, needs_search: Mapping[str, bool]):
        super().__init__(env)
        self._needs_search = needs_search

    def begin(self) -> None:
        """Forget the last decision."""
        self._way = None

    def check(self, tool: str) -> None:
        """Refuse every tool before the decision, and searches after a decision against them."""
        if self._way is None:
            raise ToolError("First decide whether to search: call decide.")
        if self._way is SearchDecision.KNOW and tool == "search":
            raise ToolError("You decided to answer without searching. Answer.")

    @tool
    def decide(self, way: SearchDecision) -> str:
        """Decide whether to search for the answer or to answer without searching.

        Args:
            way: `search`, or `know` if you can answer without searching.
        """
        if self._way is not None:
            raise ToolError(f"You have already decided: {self._way}.")
        self._way = way
        needed = self._needs_search.get(self.env.task.id, _needs_search(self.env.task))
        self.env.reward(DECIDED, 1.0)
        self.env.reward(KNOWN, float(way is SearchDecision.KNOW))
        self.env.reward(RIGHT, float((way is SearchDecision.SEARCH) == needed))
        self.env.reward("rightly_searched", float(way is SearchDecision.SEARCH and needed))
        self.env.reward("rightly_known", float(way is SearchDecision.KNOW and not needed))
        return "Go on."

    def hops(self, task: Task, hops: Sequence[Hop]) -> Sequence[Hop]:
        """Return no searches for a task that needs none."""
        return hops if _needs_search(task) else ()

    def opening_steps(self, task: Task) -> Solution:
        """Decide as the task's own label says."""
        yield ToolCall("decide", {"way": (SearchDecision.SEARCH if _needs_search(task) else SearchDecision.KNOW).value})


def labels(solve_rates: Mapping[str, float], at_least: float) -> dict[str, bool]:
    """Return whether each task needs a search, by id.

    Args:
        solve_rates: How often a model solves each task without searching, from 0 to 1, by task id.
        at_least: Tasks with at least this rate need no search.
    """
    return {task_id: rate < at_least for task_id, rate in solve_rates.items()}


def decision_f1(trajectories: Iterable[Trajectory]) -> dict[str, float]:
    """Return precision, recall and F1 of deciding that no search is needed; empty if no episode has a decision."""
    pairs: list[tuple[bool, bool]] = []
    for trajectory in trajectories:
        for turn in trajectory.turns:
            if RIGHT in turn.rewards and turn.rewards.get(DECIDED, 0.0) != 0.0:
                said_know, right = turn.rewards[KNOWN] > 0, turn.rewards[RIGHT] > 0
                pairs.append((said_know, said_know == right))
    return _shown(Decisions.of(pairs)) if pairs else {}


def implied_decision_f1(trajectories: Iterable[Trajectory]) -> dict[str, float]:
    """Return the same for episodes without the tool `decide`, where not searching counts as the decision not to.

    The labels are the tags of generated tasks. The result is empty if all tasks need a search.
    """
    pairs = [(not _searched(trajectory), Feature.NO_SEARCH in trajectory.tags) for trajectory in trajectories]
    return _shown(Decisions.of(pairs)) if any(needless for _, needless in pairs) else {}


def _searched(trajectory: Trajectory) -> bool:
    return any(turn.rewards.get("searches", 0.0) > 0 for turn in trajectory.turns)


def _shown(decisions: Decisions) -> dict[str, float]:
    measures = {"precision": decisions.precision, "recall": decisions.recall, "F1": decisions.f1}
    return {f"decision {name}": value for name, value in measures.items()}


def _needs_search(task: Task) -> bool:
    return bool(task.gold.get("needs_search", True))
