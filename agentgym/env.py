"""`Env`: a multi-turn tool-use environment, written once. A real `gymnasium.Env`, synchronous and asynchronous.

An author writes typed `@tool` methods, `start`, `grade` and `solution`; this file turns them into `reset` and `step`.
It knows no particular environment, model or trainer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import CoroutineType, MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding

from agentgym.answers import as_text, finite, message_of, opening_messages, without_pictures
from agentgym.batches import batches, together
from agentgym.choices import named
from agentgym.dialects import Dialect, get_dialect
from agentgym.drive import close_unbegun, run_now, run_on_loop
from agentgym.endings import AnyReason, Ending, Reason, own_reasons
from agentgym.errors import AgentGymError, InfrastructureError, ToolError, UsageError
from agentgym.foreign import describe, ends_work, running_task
from agentgym.messages import Message, ToolCall, calls_of, system, text_of, user, with_pictures
from agentgym.rewards import OUTCOME, SOLVED_AT, Channel, Scheme, check_scheme
from agentgym.spaces import Action, ActionSpace, MessagesSpace
from agentgym.steps import Snapshot, Solution, StepResult, chosen_task, reset_options, training_step_in
from agentgym.task import TRAIN, Task, TaskSource, check_split, default_split
from agentgym.task_files import TaskFiles
from agentgym.toolset import MAX_RESULT_CHARS, Tool, Toolset, bounded

if TYPE_CHECKING:
    from agentgym.trajectory import Trajectory

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_TOO_LATE = "the episode has ended, so this call did not run."


class Env(gymnasium.Env[list[Message], Action]):
    """Base class of all environments.

    Args:
        tasks: Where tasks come from; `default_tasks()` if not given.
        split: The split that `reset` draws from unless its options say otherwise; if not given, `train`, or the first
            one of a source that has no `train`.
        dialect: How the model writes tool calls (`agentgym.dialects`), a name or an instance.
        scheme: What the reward channels pay: a `Scheme`, or a name in the class's `schemes`; `"default"` if not given.
            Refused if unsound (`rewards.lint`).
        max_turns: Turns after which an episode is truncated; the class's `max_turns` if not given.
        time_limit_s: Wall-clock seconds after which an episode is truncated; `None` is no limit.
        render_mode: `"ansi"` makes `render` return the conversation as text.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}

    # Set these in every environment.
    channels: ClassVar[Mapping[str, Channel]] = {OUTCOME: Channel("1 if the task was solved, else 0")}

    # Set these in some environments.
    scheme: Scheme = Scheme()
    schemes: ClassVar[Mapping[str, Scheme]] = {}
    """Schemes by name. A class declares its own; there are also "default" (`scheme`), "outcome" (the outcome alone) and
    "d_ra" (the default without its gates: direct accumulation, the control of arXiv 2508.10548)."""
    system_prompt: str = ""
    """What the system message says before it explains the tools. Set in `start`, it holds for the episode alone."""
    max_turns: int = 10
    max_calls_per_turn: ClassVar[int] = 1
    """Tool calls that one action may hold; more are refused and none of them runs. They run in their order, and none
    runs after `finish`; neighbours that are `@tool(concurrent=True)` run at the same time."""
    max_format_errors: ClassVar[int] = 3
    """Turns in a row without a readable action after which the episode is truncated."""
    max_concurrent: int | None = None
    """Most episodes that one process can run at a time, such as browser contexts; `None` is no bound."""
    harmless_arguments: ClassVar[frozenset[str]] = frozenset(
        {"split", "dialect", "scheme", "max_turns", "time_limit_s"}
    )
    """Arguments that may be taken from a file that anybody may have written, as `agentgym replay` does. Never one that
    names code or a place (file, folder, URL), or that says how strongly something is confined. A class adds its own:
    `Env.harmless_arguments | {"difficulty"}`."""

    reasons: ClassVar[Mapping[str, Ending]] = {}
    """Reasons for an ending besides `Reason`, e.g. `{"transferred": Ending.TERMINATED}`; `finish("transferred")`."""

    files: ClassVar[TaskFiles | None] = None
    """The files that tasks can be taken from instead of being generated, if there are any."""
    tools: Toolset = Toolset(())
    """The `@tool` methods. Set it before `super().__init__` to offer only some: `type(self).tools.only(...)`. Set in
    `start`, it holds for the episode alone."""
    _own_reasons: ClassVar[Mapping[str, AnyReason]] = {}
    _is_async: bool = False
    _stops: ClassVar[bool] = False
    _hears_asides: ClassVar[bool] = False
    _declared_schemes: ClassVar[Mapping[str, Scheme]] = {}

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        cls.tools = Toolset.of(cls)
        hooks = (cls.start, cls.respond, cls.aside, cls.grade, cls.stop)
        cls._is_async = any(map(asyncio.iscoroutinefunction, hooks)) or any(tool.is_async for tool in cls.tools)
        cls._stops, cls._hears_asides = cls.stop is not Env.stop, cls.aside is not Env.aside
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
        time_limit_s: float | None = None,
        render_mode: str | None = None,
    ):
        self.tasks = self.default_tasks() if tasks is None else tasks
        self.split = default_split(self.tasks, TRAIN) if split is None else check_split(self.tasks, split)
        self.dialect = get_dialect(dialect) if isinstance(dialect, str) else dialect
        self.max_turns = type(self).max_turns if max_turns is None else max_turns
        if not isinstance(self.max_turns, int) or self.max_turns < 1:
            raise UsageError(f"max_turns must be a whole number from 1, not {self.max_turns!r}")
        if not (time_limit_s is None or (isinstance(time_limit_s, int | float) and time_limit_s >= 0)):
            raise UsageError(f"time_limit_s must be a number of seconds from 0, not {time_limit_s!r}")
        self.scheme = self.choose_scheme(scheme)
        check_scheme(self.scheme, self.channels, self.max_turns)
        self.time_limit_s = time_limit_s
        self.render_mode = render_mode
        self.observation_space = MessagesSpace()
        self.action_space = ActionSpace(self.tools, self.dialect)
        self._offered = self.tools
        self._zeros = dict.fromkeys(self.channels, 0.0)
        self._transcript: list[Message] = []
        self._actions: list[Action] = []
        self._turns: list[dict[str, float]] = []
        self._reason: AnyReason | None = None
        self._begun = False
        self._own_words: tuple[str, Toolset] | None = None
        self._task: Task | None = None
        self._seed: int | None = None
        self._training_step: int | None = None
        self._generator: np.random.Generator | None = None
        self._instructed: tuple[Dialect, str, Toolset, str] | None = None

    # What an author writes.

    @classmethod
    def default_tasks(cls) -> TaskSource:
        """Return the tasks of this environment. Every environment needs this, or a `tasks` argument."""
        raise UsageError(f"{cls.__name__} has no tasks of its own; pass tasks=...")

    def start(self, task: Task) -> Any:
        """Stage a task; may return the opening text (`task.prompt` if it returns `None`). May be `async def`.

        Like a tool, it may return `Pictured` to show pictures with the text. A list of messages opens the episode with
        several: a conversation that is under way, the last message not the assistant's. `self.system_prompt` and
        `self.tools` may be set here for this episode.
        """
        return None

    def respond(self, text: str) -> Any:
        """Answer an action without a tool call; returns the text of the next user message. May be `async def`.

        Environments without tools override this. By default it is the model's mistake.
        """
        raise ToolError(f"No tool call was found. Call one of: {', '.join(self.tools.names)}.")

    def aside(self, text: str) -> Any:
        """Take the text that stands beside tool calls, before they run. By default it reaches nobody.

        What it returns, if anything, is shown as a user message after the results. May be `async def`.
        """
        return None

    def grade(self) -> Any:
        """Return channel values that are known only when the episode has ended. May be `async def`."""
        return None

    def details(self) -> Mapping[str, Any]:
        """Return what else `info` holds at the start and at the end of an episode, such as why an answer was wrong.

        JSON data without the gold. Trajectories keep it.
        """
        return {}

    def stop(self) -> Any:
        """Free what belongs to one episode (a container, a session). Called once when the episode is over.

        That is after grading, or when an episode that failed or was given up is followed by a reset or by `close`. May
        be `async def`. An error in it is logged: the episode has been graded.
        """

    def solution(self, task: Task) -> Solution:
        """Yield the actions that solve `task`: the reference policy. Sent the observation that followed each."""
        raise UsageError(f"{type(self).__name__} has no solution()")
        yield ""

    def failing(self, task: Task) -> Solution | None:
        """Return an honest attempt at `task` that fails: real work with a wrong end. `agentgym check` compares its pay
        with that of junk, and where this returns `None` spoils the end of `solution` itself.
        """
        return None

    @classmethod
    def figures(cls, trajectories: Iterable[Trajectory]) -> Mapping[str, float]:
        """Return what an evaluation shows besides success, by name: what only this environment knows to measure."""
        return {}

    def release(self) -> None:
        """Free what the environment holds (processes, files, connections). Called by `close`, perhaps twice."""

    # What an author calls, from tools and hooks.

    @classmethod
    def choose_scheme(cls, scheme: Scheme | str | None) -> Scheme:
        """Return the scheme that was given, whole or by name; the default if none was. Raises `UsageError`."""
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
        """The trainer's step that the current episode is played in, from 0; `None` outside of training."""
        return self._training_step

    def reward(self, channel: str, value: float) -> None:
        """Add to the value of a channel in the current turn: a finite number."""
        if channel not in self._zeros:
            raise UsageError(f"unknown reward channel {channel!r}; {type(self).__name__} has {sorted(self.channels)}")
        self._channels[channel] += finite({channel: value})[channel]

    def finish(self, reason: Reason | str) -> None:
        """End the episode after this call: a `Reason`, or a name in the class's `reasons`.

        The truncating ones of `Reason` belong to the engine, not to environments.
        """
        if not isinstance(reason, Reason):
            reason = named("reason", reason, self._own_reasons)
        self._reason = reason

    # What everyone else calls.

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        """Start an episode. Same seed and options, same episode.

        Args:
            seed: Seeds this instance's own generator, which chooses the task and everything random in the episode.
            options: `task` (a `Task` or its id), or `split` and `index`; otherwise the seed chooses from `split`.
                `training_step`, a whole number from 0, is for trainers alone: environments with a curriculum read it.

        Returns:
            The opening messages, and info (`task`, `split`, `difficulty`, `tools`).
        """
        return self._drive(self._reset(seed, options))

    def step(self, action: Action) -> StepResult:  # type: ignore[override]
        """Play one turn: run the tool calls in `action` and return the messages they led to.

        Raises:
            ResetNeeded: There is no episode, or it has ended.
            InfrastructureError: Something around the model broke; the episode has failed.
        """
        work = self._step(action)
        return run_on_loop(work) if self._is_async else run_now(work)

    def interrupt(self, reason: AnyReason) -> StepResult:
        """Truncate the episode for a reason that the policy's side sees (tokens, context, time) and grade it."""
        return self._drive(self._interrupt(reason))

    async def areset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[list[Message], dict[str, Any]]:
        """`reset` for asynchronous callers; blocking work leaves the event loop."""
        return await self._away(self._reset(seed, options))

    async def astep(self, action: Action) -> StepResult:
        """`step` for asynchronous callers; blocking work leaves the event loop."""
        return await self._away(self._step(action))

    async def ainterrupt(self, reason: AnyReason) -> StepResult:
        """`interrupt` for asynchronous callers."""
        return await self._away(self._interrupt(reason))

    @property
    def unwrapped(self) -> Self:
        """This environment, without wrappers."""
        return self

    @property
    def reason(self) -> AnyReason | None:
        """Why the episode ended, or `None` while it goes on."""
        return self._reason

    def snapshot(self) -> Snapshot:
        """Return the current state. The default keeps the actions, which `restore` plays again."""
        return Snapshot(self.task, self._seed, tuple(self._actions), self._training_step)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a state of `snapshot`, by playing its actions again."""
        self.reset(seed=snapshot.seed, options=reset_options(snapshot.task, snapshot.training_step))
        for action in snapshot.actions:
            self.step(action)

    def render(self) -> str | None:  # type: ignore[override]
        """Return the conversation so far as text, if `render_mode` is `"ansi"`."""
        if self.render_mode != "ansi":
            return None
        return "\n".join(f"[{message.get('role')}] {text_of(message)}" for message in self._transcript)

    def close(self) -> None:
        """Release everything the environment holds. Safe to call twice."""
        if self._begun:
            self._drive(self._stop())
        self.release()

    # How it works.

    @property
    def _np_random(self) -> np.random.Generator:  # type: ignore[override]
        """Gymnasium's generator, made when it is first asked for: making one takes longer than most turns."""
        generator = self._generator
        if generator is None:
            generator, self._np_random_seed = seeding.np_random(self._np_random_seed)
            self._generator = generator
        return generator

    @_np_random.setter
    def _np_random(self, generator: np.random.Generator) -> None:  # type: ignore[override]
        self._generator = generator

    def _reseed(self, seed: int) -> None:
        if not isinstance(seed, int) or seed < 0:
            raise UsageError(f"a seed is a whole number from 0 upwards, not {seed!r}")
        self._generator, self._np_random_seed = None, seed

    def _drive(self, work: Coroutine[Any, Any, _T]) -> _T:
        return run_on_loop(work) if self._is_async else run_now(work)

    async def _away(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Await `work` of an asynchronous environment here, and run that of a blocking one in a thread."""
        if self._is_async:
            return await work
        try:
            return await asyncio.to_thread(run_now, work)
        finally:
            close_unbegun(work)  # cancelled while it waited for a thread

    async def _reset(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[list[Message], dict[str, Any]]:
        if self._begun:
            await self._stop()
        if seed is not None:
            self._reseed(seed)
        self._seed = seed
        self._reason = None
        self._training_step = training_step_in(options)
        self._task = task = self._choose(seed, options)
        self._channels = self._zeros.copy()
        self._turns, self._actions, self._transcript = [], [], []
        self._paid = 0.0
        self._format_errors = self._calls = self._tool_errors = self._unreadable = 0
        self._deadline = None if self.time_limit_s is None else time.monotonic() + self.time_limit_s
        opening = await self._start(task)
        observation: list[Message] = []
        if prompt := self._instructions():
            observation.append(system(prompt))
        observation += self._call(opening_messages, task.prompt if opening is None else opening)
        if self.render_mode is not None:
            self._show(observation)
        return observation, {
            "task": task.id,
            "split": task.split,
            "difficulty": task.difficulty,
            "tools": self.tools.schemas,
            **self._call(lambda: dict(self.details())),
        }

    async def _start(self, task: Task) -> Any:
        """Begin an episode, with the words and tools that every episode begins with."""
        if self._own_words is not None:
            self.system_prompt, self.tools = self._own_words
            self._own_words = None
        words = self.system_prompt, self.tools
        self._begun = True
        opening = self._call(self.start, task)
        if type(opening) is CoroutineType:
            opening = await self._awaited(opening)
        if self.system_prompt is not words[0] or self.tools is not words[1]:
            self._own_words = words
        if self.tools is not self._offered:
            self._offer(self.tools)
        return opening

    def _offer(self, tools: Toolset) -> None:
        """Take actions with these tools."""
        self._offered = tools
        self._is_async = type(self)._is_async or any(tool.is_async for tool in tools)
        self.action_space = ActionSpace(tools, self.dialect)

    async def _stop(self) -> None:
        """Let an author's `stop` free what the episode held. That it fails changes nothing about the episode."""
        self._begun = False
        if not self._stops:
            return
        task = running_task()
        try:
            work = self.stop()
            if type(work) is CoroutineType:
                await work
        except BaseException as error:
            if ends_work(error, task):
                raise
            _log.warning("the stop() of a %s failed: %s", type(self).__name__, describe(error))

    def _instructions(self) -> str:
        """Return the system message: the environment's own words and how to call tools, written once if they stay."""
        known, words = self._instructed, self.system_prompt
        if known is None or known[0] is not self.dialect or known[1] is not words or known[2] is not self.tools:
            of_tools = self.dialect.instructions(self.tools) if len(self.tools) else ""
            text = "\n\n".join(part for part in (words, of_tools) if part)
            known = self._instructed = (self.dialect, words, self.tools, text)
        return known[3]

    def _choose(self, seed: int | None, options: Mapping[str, Any] | None) -> Task:
        """Return the task that the options name, or one that the seed or this instance's generator draws."""
        return chosen_task(self.tasks, self.split, options or {}, seed, lambda size: int(self.np_random.integers(size)))

    async def _step(self, action: Action) -> StepResult:
        if self._task is None or self._reason is not None:
            raise ResetNeeded("the episode has ended; call reset()" if self._task else "call reset() before step()")
        self._channels = self._zeros.copy()
        self._actions.append(action)
        if self.render_mode is not None:
            self._show([{"role": "assistant", "content": action if isinstance(action, str) else text_of(action)}])
        try:
            text, calls = self._read(action)
            if calls:
                observation = await self._run_all(text, calls)
            else:
                answer = self._call(self.respond, text)
                if type(answer) is CoroutineType:
                    answer = await self._awaited(answer)
                observation = [user(as_text(answer))]
                self._understood()
        except ToolError as mistake:
            self._format_errors += 1
            self._unreadable += 1
            observation = [self.dialect.problem(bounded(message_of(mistake), MAX_RESULT_CHARS))]
        except Exception as error:
            self._blame(error, None)
            raise
        if self._reason is None:
            self._reason = self._limit_reached()
        return self._settle(observation) if self._reason is None else await self._end(observation)

    async def _interrupt(self, reason: AnyReason) -> StepResult:
        if self._task is None or self._reason is not None:
            raise ResetNeeded("there is no running episode to interrupt")
        self._channels = self._zeros.copy()
        self._reason = reason
        return await self._end([])

    def _read(self, action: Action) -> tuple[str, Sequence[ToolCall]]:
        """Return the text and the calls of an action. Raises `ToolError` if it cannot be read."""
        if not isinstance(action, str):
            text, calls = text_of(action), calls_of(action)
        elif not len(self.tools):
            return action, ()
        else:
            parsed = self.dialect.parse(action, self.tools)
            if parsed.error is not None:
                raise ToolError(parsed.error)
            text, calls = parsed.text, parsed.calls
        if len(calls) > self.max_calls_per_turn:
            raise ToolError(f"Call {self.max_calls_per_turn} tool(s) at a time, not {len(calls)}. None of them ran.")
        return text, calls

    async def _run_all(self, text: str, calls: Sequence[ToolCall]) -> list[Message]:
        """Run the calls of a turn, in their order, and let the text beside them be heard before."""
        answer = None
        if self._hears_asides and text.strip():
            answer = self._call(self.aside, text)
            if type(answer) is CoroutineType:
                answer = await self._awaited(answer)
        observation: list[Message] = []
        for some in batches(calls, self.tools) if len(calls) > 1 else (calls,):
            if self._reason is not None:
                observation += [self.dialect.result(call, "Error: " + _TOO_LATE) for call in some]
            elif len(some) == 1:
                observation.append(await self._run(some[0]))
            else:
                observation += await together(map(self._run, some))
        return observation if answer is None else [*observation, user(as_text(answer))]

    async def _run(self, call: ToolCall) -> Message:
        """Run one call; the model's mistakes come back as its result."""
        self._calls += 1
        call = call if call.id else ToolCall(call.name, call.arguments, f"call_{self._calls}")
        try:
            tool = self.tools.get(call.name)
            arguments = tool.check(call.arguments)
            self._understood()
            result = await self._invoke(tool, arguments)
            content, pictures = without_pictures(result)
            content = bounded(content, tool.max_chars)
        except ToolError as mistake:
            self._tool_errors += 1
            content, pictures = bounded(f"Error: {message_of(mistake)}", MAX_RESULT_CHARS), ()
        return with_pictures(self.dialect.result(call, content), pictures)

    async def _invoke(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        method = tool.bound_to(self)
        if self._is_async and not tool.is_async:
            # Called in the thread, so that nothing but our own errors crosses over: a future refuses `StopIteration`.
            return await asyncio.to_thread(self._call, method, **arguments)
        result = self._call(method, **arguments)
        return await self._awaited(result) if type(result) is CoroutineType else result

    def _understood(self) -> None:
        self._format_errors = 0
        if "format" in self._zeros:
            self._channels["format"] = 1.0

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call what an author wrote. What it returns may still have to be awaited."""
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            self._blame(error, running_task())
            raise

    async def _awaited(self, result: Coroutine[Any, Any, Any]) -> Any:
        task = running_task()
        try:
            return await result
        except BaseException as error:
            self._blame(error, task)
            raise

    def _blame(self, error: BaseException, task: asyncio.Task[Any] | None) -> None:
        """Mark the episode as failed, unless `error` is the model's mistake; a stranger's error becomes ours."""
        if isinstance(error, ToolError) or ends_work(error, task):
            return
        self._reason = Reason.INFRASTRUCTURE
        if not isinstance(error, AgentGymError):
            where = f"{type(self).__name__} broke on task {self.task.id!r}"
            raise InfrastructureError(f"{where}: {describe(error)}") from error

    def _limit_reached(self) -> Reason | None:
        if self._format_errors >= self.max_format_errors:
            return Reason.FORMAT_ERRORS
        if self._deadline is not None and time.monotonic() > self._deadline:
            return Reason.TIME
        return Reason.MAX_TURNS if len(self._actions) >= self.max_turns else None

    def _settle(self, observation: list[Message]) -> StepResult:
        """Pay the turn, and say how things stand."""
        turns, channels = self._turns, self._channels
        turns.append(channels)
        if self.render_mode is not None:
            self._show(observation)
        info = {"rewards": channels.copy(), "turn": len(turns)}
        pay = self.scheme.pay(turns, self._paid)
        self._paid += pay
        return StepResult(observation, pay, False, False, info)

    async def _end(self, observation: list[Message]) -> StepResult:
        """Grade the episode, settle its last turn, and say how it ended."""
        grades = self._call(self.grade)
        if type(grades) is CoroutineType:
            grades = await self._awaited(grades)
        self._channels.update(self._call(finite, grades or {}))
        observation, reward, _, _, info = self._settle(observation)
        reason = self._reason or Reason.INFRASTRUCTURE
        info["ending"] = reason.value
        info["is_success"] = self._outcome() >= SOLVED_AT
        info["counts"] = {
            "calls": self._calls,
            "tool_errors": self._tool_errors,
            "format_errors": self._unreadable,
        }
        info.update(self._call(lambda: dict(self.details())))
        if self._begun:
            await self._stop()
        ending = reason.ending
        return StepResult(observation, reward, ending is Ending.TERMINATED, ending is Ending.TRUNCATED, info)

    def _outcome(self) -> float:
        return sum(turn[OUTCOME] for turn in self._turns)

    def _show(self, messages: list[Message]) -> None:
        self._transcript.extend(messages)
