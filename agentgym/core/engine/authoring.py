"""`Authoring`: the interface that environment authors declare, override and call. `Engine` runs it.

An author writes typed `@tool` methods, `start`, `grade` and `solution`. Nothing here depends on a particular
environment, model or trainer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded

from agentgym.base.choices import named
from agentgym.base.errors import NoSolution, ToolError, UsageError
from agentgym.core.dialects import Dialect, checked_dialect, get_dialect
from agentgym.core.endings import AnyReason, Ending, Reason, own_reasons
from agentgym.core.engine.parallel import parallel_call
from agentgym.core.engine.spaces import Action, ActionSpace, MessagesSpace
from agentgym.core.engine.steps import Solution, finite
from agentgym.core.messages import Message, ToolCall
from agentgym.core.rewards import OUTCOME, Channel, Scheme, check_scheme
from agentgym.core.task import TRAIN, Task, TaskSource, check_split, default_split
from agentgym.core.task_files import TaskFiles
from agentgym.core.timing import StepTimes
from agentgym.core.toolset import Toolset

if TYPE_CHECKING:
    from agentgym.core.trajectory import Trajectory


class EnvArguments(TypedDict, total=False):
    """Keyword arguments that every environment takes, besides `tasks`. Use it to type a constructor's `**kwargs`.

    An environment with more task options derives its own: `**kwargs: Unpack[SQLArguments]`.
    """

    split: str | None
    dialect: str | Dialect
    scheme: Scheme | str | None
    max_turns: int | None
    max_calls_per_turn: int | None
    time_limit_s: float | None
    lenient: bool
    render_mode: str | None


class Authoring(gymnasium.Env[list[Message], Action]):
    """Everything an environment can declare, override and call. Derive from `Env`, not from this class."""

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}

    # Set these in every environment.
    channels: Mapping[str, Channel] = {OUTCOME: Channel("1 if the task was solved, else 0")}
    """Reward channels by name. Set it before `super().__init__` if an argument adds channels."""

    # Set these in some environments.
    scheme: Scheme = Scheme()
    schemes: ClassVar[Mapping[str, Scheme]] = {}
    """Schemes by name. A class declares its own. "default" (`scheme`), "outcome" (the outcome alone) and "d_ra" (the
    default without its gates: direct accumulation, the control of arXiv 2508.10548) always exist."""
    system_prompt: str = ""
    """Text of the system message before the tool instructions. If set in `start`, it applies to that episode only."""
    states_turns: bool = False
    """Whether the system message states, after `system_prompt`, the number of turns and of messages without a call that
    end the episode. Instances may set it."""
    example_call: ToolCall | None = None
    """An example call to show after the tool instructions, in the dialect. Instances may set it."""
    max_turns: int = 10
    max_calls_per_turn: int = 1
    """Tool calls allowed in one action; with more, none of them runs. Calls run in order, and none runs after `finish`.
    Adjacent calls of `@tool(concurrent=True)` tools run concurrently. In a turn with several calls, each channel stays
    within its declared range."""
    max_format_errors: ClassVar[int] = 3
    """The episode is truncated after this many consecutive turns without a readable action."""
    unrepeatable: str = ""
    """Why an episode cannot be replayed from its actions, such as "its user is a language model"; empty if it can.
    `snapshot` and searches over turns (`agentgym.rollout.lookahead`) rely on replay. Instances may set it."""
    max_concurrent: int | None = None
    """Maximum number of concurrent episodes in one process (e.g. browser contexts); `None` means no limit."""
    harmless_arguments: ClassVar[frozenset[str]] = frozenset(
        {"split", "dialect", "scheme", "max_turns", "max_calls_per_turn", "time_limit_s", "lenient"}
    )
    """Arguments that may be read from an untrusted file, as `agentgym replay` does. Never list one that names code or a
    location (file, folder, URL), or one that affects sandboxing. A class adds its own:
    `Env.harmless_arguments | {"difficulty"}`."""

    reasons: ClassVar[Mapping[str, Ending]] = {}
    """Reasons for an ending besides `Reason`, e.g. `{"transferred": Ending.TERMINATED}`; `finish("transferred")`."""

    files: ClassVar[TaskFiles | None] = None
    """The files that tasks can be loaded from, instead of generating them, if any."""
    tools: Toolset = Toolset(())
    """The `@tool` methods. Set it before `super().__init__` to offer only some: `type(self).tools.only(...)`. If set in
    `start`, it applies to that episode only."""
    _own_reasons: ClassVar[Mapping[str, AnyReason]] = {}
    _is_async: bool = False
    _stops: ClassVar[bool] = False
    _hears_asides: ClassVar[bool] = False
    _declared_schemes: ClassVar[Mapping[str, Scheme]] = {}
    _channels: dict[str, float]

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls.tools = Toolset.of(cls)
        hooks = (cls.start, cls.respond, cls.aside, cls.grade, cls.stop)
        cls._is_async = any(map(asyncio.iscoroutinefunction, hooks)) or any(tool.is_async for tool in cls.tools)
        cls._stops, cls._hears_asides = cls.stop is not Authoring.stop, cls.aside is not Authoring.aside
        cls._own_reasons = {**cls._own_reasons, **own_reasons(vars(cls).get("reasons", {}))}
        if OUTCOME not in cls.channels:
            raise UsageError(f"{cls.__name__}.channels needs an {OUTCOME!r} channel")
        cls._declared_schemes = {**cls._declared_schemes, **vars(cls).get("schemes", {})}
        if cls._declared_schemes.get("default", cls.scheme) != cls.scheme:
            raise UsageError(f"{cls.__name__}.schemes['default'] is not {cls.__name__}.scheme; leave it out of schemes")
        always = {"default": cls.scheme, "outcome": Scheme(), "d_ra": cls.scheme.ungated()}
        cls.schemes = MappingProxyType({**always, **cls._declared_schemes})

    def __init__(
        self,
        *,
        tasks: TaskSource | None = None,
        split: str | None = None,
        dialect: str | Dialect = "hermes",
        scheme: Scheme | str | None = None,
        max_turns: int | None = None,
        max_calls_per_turn: int | None = None,
        time_limit_s: float | None = None,
        lenient: bool = False,
        render_mode: str | None = None,
    ):
        self.tasks = self.default_tasks() if tasks is None else tasks
        self.split = default_split(self.tasks, TRAIN) if split is None else check_split(self.tasks, split)
        self.dialect = get_dialect(dialect) if isinstance(dialect, str) else checked_dialect(dialect)
        self.max_turns = _from_1("max_turns", max_turns, type(self).max_turns)
        self.max_calls_per_turn = _from_1("max_calls_per_turn", max_calls_per_turn, type(self).max_calls_per_turn)
        if not (time_limit_s is None or (isinstance(time_limit_s, int | float) and time_limit_s >= 0)):
            raise UsageError(f"time_limit_s must be a number of seconds from 0, not {time_limit_s!r}")
        calls = self.max_calls_per_turn
        self.channels = {name: channel.for_calls(calls) for name, channel in self.channels.items()}
        self.scheme = self.choose_scheme(scheme)
        check_scheme(self.scheme, self.channels, self.max_turns)
        self.time_limit_s, self.lenient = time_limit_s, lenient
        self.render_mode = render_mode
        self.observation_space = MessagesSpace()
        self.action_space = ActionSpace(self.tools, self.dialect)
        self._offered = self.tools
        self._zeros = dict.fromkeys(self.channels, 0.0)
        self._transcript: list[Message] = []
        self._actions: list[Action] = []
        self._turns: list[dict[str, float]] = []
        self._reason: AnyReason | None = None
        self._running: dict[object, tuple[str, float]] = {}
        self._times = StepTimes()
        self._is_started = False
        self._own_words: tuple[str, Toolset] | None = None
        self._task: Task | None = None
        self._seed: int | None = None
        self._training_step: int | None = None
        self._generator: np.random.Generator | None = None
        self._instructed: tuple[Dialect, str, Toolset, int, str] | None = None

    # Hooks that authors override.

    @classmethod
    def default_tasks(cls) -> TaskSource:
        """Return the tasks of this environment. Every environment needs this or a `tasks` argument."""
        raise UsageError(f"{cls.__name__} has no tasks of its own; pass tasks=...")

    @classmethod
    def packages(cls, kwargs: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the modules that the environment needs beyond the base requirements, with the extra of each.

        Commands check them before they start long work.

        Args:
            kwargs: Arguments of the environment.
        """
        return {}

    def start(self, task: Task) -> Any:
        """Stage a task; may return the opening text (default: `task.prompt`). May be `async def`.

        Like a tool, it may return `Pictured` to show pictures with the text. It may also return a list of messages to
        open with a conversation in progress; the last message must not be the assistant's. `self.system_prompt` and
        `self.tools` may be set here for this episode.
        """
        return None

    def respond(self, text: str) -> Any:
        """Answer an action without a tool call: return the next user message, text or `Pictured`. May be `async def`.

        Environments without tools override this. By default, such an action is the model's mistake.
        """
        raise ToolError(f"No tool call was found. Call one of: {', '.join(self.tools.names)}.")

    def aside(self, text: str) -> Any:
        """Receive the text that accompanies tool calls, before the calls run. By default it is ignored.

        If it returns text or `Pictured`, that is shown as a user message after the results. May be `async def`.
        """
        return None

    def grade(self) -> Any:
        """Return the channel values that are known only at the end of the episode. May be `async def`."""
        return None

    def details(self) -> Mapping[str, Any]:
        """Return additional entries of `info` at the start and end of an episode, such as why an answer was wrong.

        Must be JSON data without the gold. Keys that the engine sets (`task`, `rewards`, …) are reserved. Trajectories
        record it.
        """
        return {}

    def stop(self) -> Any:
        """Free the resources of one episode (a container, a session). Called once when the episode is over.

        That is after grading, or at the next `reset` or `close` if the episode failed or was abandoned. May be
        `async def`. An error here is only logged, because the episode has been graded.
        """

    def solution(self, task: Task) -> Solution:
        """Yield the actions that solve `task`: the reference policy. The generator is sent the observation after each
        action.

        Raises:
            NoSolution: The task has no solution here. `agentgym check` then plays random actions instead.
        """
        raise NoSolution(f"{type(self).__name__} has no solution()")
        yield ""

    def failing(self, task: Task) -> Solution | None:
        """Return an honest attempt at `task` that fails: real work with a wrong end. `agentgym check` compares its
        reward with that of junk actions. If this returns `None`, the check spoils the end of `solution` instead.
        """
        return None

    @classmethod
    def figures(cls, trajectories: Iterable[Trajectory]) -> Mapping[str, float]:
        """Return the environment's own metrics for an evaluation, by name, in addition to success."""
        return {}

    def release(self) -> None:
        """Free the environment's resources (processes, files, connections). Called by `close`, possibly twice."""

    # Methods that authors call from tools and hooks.

    @classmethod
    def choose_scheme(cls, scheme: Scheme | str | None) -> Scheme:
        """Return the given scheme (an object or a name), or the default if `None`. Raises `UsageError`."""
        if scheme is None:
            return cls.scheme
        return scheme if isinstance(scheme, Scheme) else named("scheme", scheme, cls.schemes)

    @property
    def task(self) -> Task:
        """The task of the current episode."""
        if self._task is None:
            raise ResetNeeded("call reset() first")
        return self._task

    @property
    def training_step(self) -> int | None:
        """The trainer's step of the current episode, from 0; `None` outside of training."""
        return self._training_step

    def reward(self, channel: str, value: float) -> None:
        """Add `value`, a finite number, to a channel in the current turn."""
        if channel not in self._zeros:
            raise UsageError(unknown_channel(self, channel))
        amount = finite({channel: value})[channel]
        self._take_effect(self._add_reward, channel, amount)

    def finish(self, reason: Reason | str) -> None:
        """End the episode after this call: a `Reason`, or a name in the class's `reasons`.

        The truncating reasons in `Reason` are reserved for the engine.
        """
        if not isinstance(reason, Reason):
            reason = named("reason", reason, self._own_reasons)
        self._take_effect(self._set_reason, reason)

    @property
    def reason(self) -> AnyReason | None:
        """Why the episode ended, or `None` while it is running."""
        return self._reason

    def _take_effect(self, effect: Callable[..., None], *args: Any) -> None:
        """Change the episode: now, or, from a concurrent call, when that call is concluded."""
        call = parallel_call.get()
        if call is None or call.env is not self:
            effect(*args)
        else:
            call.effects.append(partial(effect, *args))

    def _add_reward(self, channel: str, amount: float) -> None:
        self._channels[channel] += amount

    def _set_reason(self, reason: AnyReason) -> None:
        self._reason = reason


def unknown_channel(env: Authoring, name: object) -> str:
    """Return the error message for an unknown channel."""
    return f"unknown reward channel {name!r}; {type(env).__name__} has {sorted(env.channels)}"


def _from_1(name: str, number: int | None, default: int) -> int:
    """Return `number`, or the default for `None`. Raises `UsageError` unless it is a whole number from 1."""
    value = default if number is None else number
    if not isinstance(value, int) or value < 1:
        raise UsageError(f"{name} must be a whole number from 1, not {value!r}")
    return value
