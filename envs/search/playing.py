"""`ActiveModes`: the modes of one environment, behind the interface of a single one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from agentgym.engine.steps import Solution
from agentgym.env import Env
from agentgym.envs.search.mode import Hop, Mode, ModePart
from agentgym.errors import UsageError
from agentgym.rewards import Channel
from agentgym.task import Task
from agentgym.tools.index import Index
from agentgym.toolset import Tool, Toolset

P = TypeVar("P", bound=ModePart)


class ActiveModes(ModePart):
    """The modes of an environment. Passes every call to the part of each mode, in order.

    Args:
        env: The environment.
        modes: Its modes. Modes that are `first` move to the front; the order is otherwise kept.
    """

    def __init__(self, env: Env, modes: Iterable[Mode]):
        super().__init__(env)
        self._modes = sorted(modes, key=lambda mode: not mode.first)
        self._parts = [mode.part(env) for mode in self._modes]

    @property
    def is_empty(self) -> bool:
        """Whether the environment has no modes."""
        return not self._parts

    def part(self, kind: type[P]) -> P:
        """Return the part of this kind. Raises `UsageError` if no mode has one."""
        for part in self._parts:
            if isinstance(part, kind):
                return part
        raise UsageError(f"no mode of this {type(self.env).__name__} has a {kind.__name__}")

    def rules(self, *, first: bool) -> list[str]:
        """Return the sentences in the prompt about the modes that are `first`, or about the others."""
        return [mode.rule for mode in self._modes if mode.first is first and mode.rule]

    def tools_with(self, own: Toolset) -> Toolset:
        """Return an environment's own tools and those of the modes, in the order of the prompt."""
        return Toolset([*self._tools(first=True), *own, *self._tools(first=False)])

    def channels_with(self, own: Mapping[str, Channel]) -> Mapping[str, Channel]:
        """Return an environment's own channels with those of the modes."""
        return {name: channel for group in (own, *(m.channels for m in self._modes)) for name, channel in group.items()}

    def begin(self) -> None:
        """Begin an episode in every mode."""
        for part in self._parts:
            part.begin()

    def index_for(self, task: Task, index: Index) -> Index:
        """Return the index to search in this episode, as modified by the modes in turn."""
        for part in self._parts:
            index = part.index_for(task, index)
        return index

    def check(self, tool: str) -> None:
        """Raise `ToolError` if a mode does not allow `tool` now."""
        for part in self._parts:
            part.check(tool)

    def after_search(self, results: str, new: Mapping[str, str]) -> None:
        """Notify every mode of a search."""
        for part in self._parts:
            part.after_search(results, new)

    def hops(self, task: Task, hops: Sequence[Hop]) -> Sequence[Hop]:
        """Return the searches that the solution makes, as modified by the modes in turn."""
        for part in self._parts:
            hops = part.hops(task, hops)
        return hops

    def opening_steps(self, task: Task) -> Solution:
        """Yield the first actions of the solution, mode by mode."""
        for part in self._parts:
            yield from part.opening_steps(task)

    def steps_after_search(self, found_evidence: bool) -> Solution:
        """Yield the actions of the solution right after a search, mode by mode."""
        for part in self._parts:
            yield from part.steps_after_search(found_evidence)

    def _tools(self, *, first: bool) -> list[Tool]:
        pairs = zip(self._modes, self._parts, strict=True)
        return [tool for mode, part in pairs if mode.first is first for tool in part.tools]
