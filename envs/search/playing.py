"""`ActiveModes`: the modes of one environment, behind the interface of a single one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

from agentgym.base.errors import UsageError
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.rewards import Channel
from agentgym.core.task import Task
from agentgym.core.toolset import Tool, ToolOptions, Toolset
from agentgym.core.trajectory import Trajectory
from agentgym.tools.index import Index

Hop = Mapping[str, str]
"""A search that leads to the answer: the `query` and, optionally, the `document` that it should find."""


class ModePart:
    """A mode at work in one environment.

    Methods marked with `@tool` become tools of the environment. The others do nothing until they are overridden.

    Args:
        env: The environment whose task and training step the part reads and whose rewards it sets.
    """

    tools: ClassVar[tuple[Tool, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls.tools = tuple(_PartTool(cls, tool) for tool in Toolset.of(cls))

    def __init__(self, env: Env):
        self.env = env

    def begin(self) -> None:
        """Begin an episode: forget the last one."""

    def index_for(self, task: Task, index: Index) -> Index:
        """Return the index to search in this episode.

        Args:
            task: The task of the episode.
            index: The index to search without this mode.
        """
        return index

    def check(self, tool: str) -> None:
        """Raise `ToolError` if a tool of `SearchEnv` itself may not be called now. The policy reads the message."""

    def after_search(self, results: str, new: Mapping[str, str]) -> None:
        """Called after a search.

        Args:
            results: The results, as the policy sees them.
            new: The shown text of each page that no earlier search had found, by page id.
        """

    def hops(self, task: Task, hops: Sequence[Hop]) -> Sequence[Hop]:
        """Return the searches that the solution makes, given those that lead to the answer."""
        return hops

    def opening_steps(self, task: Task) -> Solution:
        """Yield the first actions of the solution."""
        yield from ()

    def steps_after_search(self, found_evidence: bool) -> Solution:
        """Yield the actions of the solution right after a search.

        Args:
            found_evidence: Whether the search found a document that the answer rests on, for the first time.
        """
        yield from ()


class Mode(ABC):
    """The settings of a mode, as a frozen dataclass.

    Fields that hold plain data can be set by `SearchEnv(mode={"name": ..., FIELD: ...})`, which recordings keep, and by
    `--set`. Other fields, such as functions, require passing the mode itself.
    """

    first: ClassVar[bool] = False
    """Whether the mode's rule and tools come before those of searching, and its part before those of other modes."""
    rule: ClassVar[str] = ""
    """The sentence about the mode in the prompt."""
    channels: ClassVar[Mapping[str, Channel]] = {}
    """The reward channels that the part sets."""

    @abstractmethod
    def part(self, env: Env) -> ModePart:
        """Return the part that plays this mode in an environment."""

    @classmethod
    def figures(cls, trajectories: Iterable[Trajectory]) -> Mapping[str, float]:
        """Return the figures of this mode in evaluations, by name; empty if it was not played."""
        return {}


class _PartTool(Tool):
    """A `@tool` method of a part, as a tool of the environment that the part belongs to."""

    def __init__(self, owner: type[ModePart], method: Tool):
        options = ToolOptions(method.name, method.max_chars, method.concurrent)
        super().__init__(method.name, method.description, method.parameters, options, is_async=method.is_async)
        self._owner, self._method = owner, method

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return validated arguments. Raises `ToolError` naming the expected arguments."""
        return self._method.check(arguments)

    def bound_to(self, env: Any) -> Callable[..., Any]:
        """Return the method, bound to the part of `env`."""
        return self._method.bound_to(env.part(self._owner))


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
