"""`ActiveModes`: the modes of one environment as a whole, so that `SearchEnv` need not know how many there are."""

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
    """The modes that an environment plays. Every call is passed on to the part of each mode, in order.

    Args:
        env: The environment.
        modes: Its modes. Those that are `first` are moved to the front; otherwise they keep their order.
    """

    def __init__(self, env: Env, modes: Iterable[Mode]):
        super().__init__(env)
        self._modes = sorted(modes, key=lambda mode: not mode.first)
        self._parts = [mode.part(env) for mode in self._modes]

    @property
    def is_empty(self) -> bool:
        """Whether there is no mode at all."""
        return not self._parts

    def part(self, kind: type[P]) -> P:
        """Return the part of this kind. Raises `UsageError` if no mode brought one."""
        for part in self._parts:
            if isinstance(part, kind):
                return part
        raise UsageError(f"no mode of this {type(self.env).__name__} has a {kind.__name__}")

    def rules(self, *, first: bool) -> list[str]:
        """Return what the prompt says about the modes that are `first`, or about the others."""
        return [mode.rule for mode in self._modes if mode.first is first and mode.rule]

    def tools_with(self, own: Toolset) -> Toolset:
        """Return an environment's own tools with those of the modes, in the order in which they are shown."""
        return Toolset([*self._tools(first=True), *own, *self._tools(first=False)])

    def channels_with(self, own: Mapping[str, Channel]) -> Mapping[str, Channel]:
        """Return an environment's own channels with those of the modes."""
        return {name: channel for group in (own, *(m.channels for m in self._modes)) for name, channel in group.items()}

    def begin(self) -> None:
        """Begin an episode in every mode."""
        for part in self._parts:
            part.begin()

    def index_for(self, task: Task, index: Index) -> Index:
        """Return the index to search in this episode, as one mode after the other wants it."""
        for part in self._parts:
            index = part.index_for(task, index)
        return index

    def check(self, tool: str) -> None:
        """Raise `ToolError` if a mode does not allow `tool` now."""
        for part in self._parts:
            part.check(tool)

    def after_search(self, results: str, new: Mapping[str, str]) -> None:
        """Let every mode take note of a search."""
        for part in self._parts:
            part.after_search(results, new)

    def hops(self, task: Task, hops: Sequence[Hop]) -> Sequence[Hop]:
        """Return the searches that the solution makes, as one mode after the other wants them."""
        for part in self._parts:
            hops = part.hops(task, hops)
        return hops

    def opening_steps(self, task: Task) -> Solution:
        """Yield the actions with which the solution begins, mode by mode."""
        for part in self._parts:
            yield from part.opening_steps(task)

    def steps_after_search(self, found_evidence: bool) -> Solution:
        """Yield the actions that the solution takes right after a search, mode by mode."""
        for part in self._parts:
            yield from part.steps_after_search(found_evidence)

    def _tools(self, *, first: bool) -> list[Tool]:
        pairs = zip(self._modes, self._parts, strict=True)
        return [tool for mode, part in pairs if mode.first is first for tool in part.tools]
