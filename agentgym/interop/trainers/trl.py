"""TRL's `environment_factory`: a class with a typed, documented method for each tool of an environment.

TRL runs the conversation, and its calls drive the episode. `docs/interop/trl.md` lists what TRL does not support.
"""

from __future__ import annotations

import copyreg
import inspect
import logging
import re
import weakref
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial, reduce, wraps
from io import BytesIO
from operator import or_
from typing import Any, ClassVar, Literal

from agentgym.base.errors import AgentGymError, BrokenTask, InfrastructureError, UsageError, require
from agentgym.core.messages import Message, shown_pictures, text_of, without_pictures
from agentgym.core.registry import make
from agentgym.core.toolset import Tool
from agentgym.interop.episodes import CalledEpisode, ReplayedEpisode, as_text
from agentgym.interop.openings import openings

logger = logging.getLogger(__name__)

BROKEN = "Something broke around this conversation. It does not count; you may stop."
"""The result of every tool call after the episode has failed."""

_RESERVED = ("reset", "get_reward")
_TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}


_HEADINGS = {"Args": "Arguments", "Returns": "Result", "Raises": "Errors"}
_HEADING = re.compile(r"^([ \t]*)(Args|Returns|Raises):", re.MULTILINE)
"""Headings that TRL would parse as our sections; MCP servers often describe a tool by a whole docstring."""


@dataclass
class _Plan:
    """The state shared by all instances of a class."""

    env: str
    arguments: Mapping[str, Any]
    attempts: int
    stop_after: int
    pictures: bool
    failures: int = field(default=0, compare=False)
    """Consecutive failed episodes."""

    def make(self) -> Any:
        return make(self.env, **{"dialect": "native", **self.arguments})


class _Generated(type):
    """The type of generated classes; other processes generate them again instead of importing them."""

    plan: _Plan


class Environment(metaclass=_Generated):
    """Base of the generated classes. TRL shows every public method to the policy, so all others begin with `_`."""

    plan: ClassVar[_Plan]

    def __init__(self) -> None:
        self._plan = type(self).plan
        self._episode = ReplayedEpisode(self._plan.make, attempts=self._plan.attempts)
        # TRL never closes instances.
        self._closing = weakref.finalize(self, self._episode.close)

    def reset(self, *, task_id: str | None = None, seed: int | None = None, prompt: Any = None, **_: Any) -> Any:
        """Begin the episode of a row, and return what TRL must append to the row's prompt."""
        if task_id is None or seed is None:
            raise UsageError(
                f"rows need the columns task_id and seed, so that a group plays one task: make them with "
                f"agentgym.interop.trainers.trl.rows({self._plan.env!r}, ...)"
            )
        try:
            self._episode.begin(seed=int(seed), options={"task": task_id})
        except (InfrastructureError, BrokenTask) as error:
            self._failed(error)
            return None
        self._check_tools()
        return self._lacking(prompt)

    def get_reward(self) -> float | None:
        """Return the episode's reward; `None` if it failed, which TRL excludes from the group."""
        if self._episode.has_failed:
            return None
        try:
            reward = self._episode.end()
        except AgentGymError as error:
            self._failed(error)
            return None
        self._plan.failures = 0
        return reward

    def _call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        if self._episode.has_failed:
            return BROKEN
        try:
            return self._content(self._episode.call(name, arguments))
        except AgentGymError as error:  # including broken tasks: TRL would show them to the policy and continue
            self._failed(error)
            return BROKEN

    def _lacking(self, prompt: Any) -> Any:
        """Return what TRL must append to a row's prompt: pictures, or the whole opening if the prompt ends empty."""
        opening = self._episode.opening
        if prompt is None or not text_of(prompt[-1]):
            return self._content(opening)
        if [text_of(message) for message in prompt] != [text_of(message) for message in opening]:
            raise UsageError(
                "the row's prompt is not the opening of its episode: make the rows again, with the environment's "
                "arguments, or end their prompts with an empty message, to which the opening will be appended"
            )
        return (_pictures(opening) if self._plan.pictures else []) or None

    def _content(self, messages: list[Message]) -> Any:
        """Return messages as text, or as blocks if the model sees their pictures."""
        if not self._plan.pictures:
            return as_text(map(without_pictures, messages))
        pictures = _pictures(messages)
        return [{"type": "text", "text": as_text(messages)}, *pictures] if pictures else as_text(messages)

    def _failed(self, error: Exception) -> None:
        """Exclude the episode; stop the training after too many consecutive failures."""
        logger.warning("an episode of %s failed and is excluded: %s", self._plan.env, error)
        self._plan.failures += 1
        if self._plan.failures >= self._plan.stop_after:
            raise TooManyFailures(
                f"{self._plan.failures} episodes of {self._plan.env} failed in a row, the last: {error}"
            )

    def _check_tools(self) -> None:
        offered = {entry["function"]["name"] for entry in self._episode.info["tools"]}
        if new := sorted(name for name in offered if not hasattr(type(self), name)):
            raise UsageError(f"the task offers the tools {', '.join(new)}, but TRL supports one set of tools per class")


class TooManyFailures(BaseException):
    """Every recent episode failed. Not an `Exception`, since TRL shows those to the policy and continues."""


def environment_class(
    env: str, *, attempts: int = 3, stop_after: int = 16, pictures: bool = False, **arguments: Any
) -> type[Environment]:
    """Return a class for `GRPOTrainer(environment_factory=...)`, named after the environment.

    Args:
        env: The environment, as for `agentgym.make`.
        attempts: Attempts at each turn, each in a fresh environment, before the episode fails.
        stop_after: Consecutive failures after which `TooManyFailures` ends the training.
        pictures: Whether the model sees pictures; otherwise a line of text replaces each, since TRL would fail.
        arguments: The environment's arguments.

    Raises:
        UsageError: The environment has no tools, or one whose name TRL cannot offer.
    """
    plan = _Plan(env, arguments, attempts, stop_after, pictures)
    with closing(plan.make()) as instance:
        tools = {tool.name: _method(tool) for tool in instance.tools}
    if not tools:
        raise UsageError(f"{env} has no tools, but TRL passes only tool calls to the environment")
    name = re.sub(r"\W", "_", env.rpartition(":")[2].rpartition("/")[2])
    return _Generated(name, (Environment,), {"plan": plan, "__doc__": f"{env} for TRL.", **tools})


def rows(env: str, *, dialect: str = "native", **options: Any) -> list[dict[str, Any]]:
    """Return the rows of a data set: `prompt`, `task_id` and `seed`, which give a group the same episode.

    Args:
        env: The environment, as for `agentgym.make`.
        dialect: The dialect of the class.
        options: Options of `openings`: the tasks, and the environment's other arguments, the same as for the class.
    """
    return [{"prompt": opening.prompt, **opening.named} for opening in openings(env, dialect=dialect, **options)]


def episode_of(environment: Any) -> CalledEpisode:
    """Return the episode of an instance from the `environments` that TRL passes to reward functions."""
    return environment._episode


def unless_failed(reward: Callable[..., list[float | None]]) -> Callable[..., list[float | None]]:
    """Decorate another reward function, so that it gets ended episodes and returns `None` for failed ones."""

    @wraps(reward)
    def without(*args: Any, environments: list[Any], **columns: Any) -> list[float | None]:
        # TRL calls `get_reward` last, but only grading, which may fail, ends an episode that the policy abandoned.
        for environment in environments:
            environment.get_reward()
        rewards = reward(*args, environments=environments, **columns)
        failures = [episode_of(environment).has_failed for environment in environments]
        return [None if failed else value for value, failed in zip(rewards, failures, strict=True)]

    return without


def _class_again(kind: type[Environment]) -> Any:
    if "plan" not in vars(kind):
        return kind.__qualname__
    plan = kind.plan
    return partial(
        environment_class, plan.env, attempts=plan.attempts, stop_after=plan.stop_after, **plan.arguments
    ), ()


copyreg.pickle(_Generated, _class_again)  # type: ignore[arg-type]


def _pictures(messages: list[Message]) -> list[dict[str, Any]]:
    if not (files := shown_pictures(messages)):
        return []
    require("PIL", "web")
    from PIL import Image

    return [{"type": "image", "image": Image.open(BytesIO(file))} for file in files]


def _method(tool: Tool) -> Callable[..., Any]:
    """Return a method from whose signature and docstring TRL derives the tool's schema."""
    name = tool.name
    if name in _RESERVED or name.startswith("_") or not name.isidentifier():
        raise UsageError(f"TRL cannot offer a tool called {name!r}: the name is reserved, private or not an identifier")

    def call(self: Environment, /, **arguments: Any) -> Any:
        return self._call(name, arguments)

    properties = tool.parameters.get("properties", {})
    named = {f"#/{word}/{name}": schema for word in ("$defs", "definitions")
             for name, schema in tool.parameters.get(word, {}).items()}  # fmt: skip
    annotations = {argument: _annotation(schema, named) for argument, schema in properties.items()}
    call.__name__ = call.__qualname__ = name
    call.__doc__ = _docstring(tool.description, properties)
    call.__annotations__ = annotations
    call.__signature__ = _signature(tool, annotations)  # type: ignore[attr-defined]
    return call


def _signature(tool: Tool, annotations: Mapping[str, Any]) -> inspect.Signature:
    required = set(tool.parameters.get("required", ()))
    properties = tool.parameters.get("properties", {})
    kinds = inspect.Parameter
    try:
        parameters = [
            kinds(
                name,
                kinds.KEYWORD_ONLY,
                default=kinds.empty if name in required else properties[name].get("default"),
                annotation=annotation,
            )
            for name, annotation in annotations.items()
        ]
        return inspect.Signature([kinds("self", kinds.POSITIONAL_ONLY), *parameters])
    except ValueError as error:
        raise UsageError(f"TRL cannot offer the tool {tool.name!r}: {error}") from None


def _docstring(description: str, properties: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a docstring in Google's format, with one line per argument."""
    lines = [_HEADING.sub(lambda match: f"{match[1]}{_HEADINGS[match[2]]}:", description)]
    if properties:
        described = {
            name: " ".join(str(schema.get("description") or name).split()) for name, schema in properties.items()
        }
        lines += ["", "Args:", *(f"    {name}: {text}" for name, text in described.items())]
    return "\n".join(lines)


def _annotation(schema: Mapping[str, Any], named: Mapping[str, Any]) -> Any:
    """Return the type whose schema is nearest to `schema`, which may refer to the `named` definitions."""
    if "$ref" in schema:
        # Definitions may be recursive, so references in them are not followed.
        definition = named.get(schema["$ref"], {})
        return dict if definition.get("type") == "object" else _annotation(definition, {})
    if (listed := schema.get("enum")) and all(isinstance(value, str | int | float | None) for value in listed):
        return Literal[tuple(listed)]
    kind = schema.get("type")
    options = schema.get("anyOf") or ([{**schema, "type": name} for name in kind] if isinstance(kind, list) else None)
    if options:
        return reduce(or_, (_annotation(option, named) for option in options))
    if kind == "array" and "items" in schema:
        return list[_annotation(schema["items"], named)]
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return dict[str, _annotation(schema["additionalProperties"], named)]
    return _TYPES.get(str(kind), Any)
