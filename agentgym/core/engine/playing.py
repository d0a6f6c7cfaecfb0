"""`Engine`: runs episodes of an author's environment. One implementation for synchronous and asynchronous callers."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from types import CoroutineType
from typing import Any, TypeVar

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding

from agentgym.base.errors import NEAR_MISSES, ToolError, UsageError, counts_of, of_turn
from agentgym.core.endings import AnyReason, Ending, Reason
from agentgym.core.engine.authoring import Authoring, unknown_channel
from agentgym.core.engine.calling import Calling
from agentgym.core.engine.drive import run_now, run_on_loop
from agentgym.core.engine.spaces import Action, ActionSpace, is_text, refusals, text_in
from agentgym.core.engine.steps import (
    ENGINE_INFO,
    RESET_INFO,
    StepResult,
    as_message,
    finite,
    limits_stated,
    message_of,
    opening_messages,
    select_task,
    training_step_in,
)
from agentgym.core.engine.threads import blocking, blocks
from agentgym.core.foreign import describe, ends_work, running_task
from agentgym.core.messages import Message, system, tool_result
from agentgym.core.rewards import OUTCOME, SOLVED_AT
from agentgym.core.task import Task
from agentgym.core.timing import StepTimes
from agentgym.core.toolset import MAX_RESULT_CHARS, Toolset, bounded

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Engine(Calling):
    """Runs the episodes of an author's environment. Derive from `Env`, not from this class."""

    @property
    def _np_random(self) -> np.random.Generator:  # type: ignore[override]
        """Gymnasium's generator, created on first use: creating one takes longer than most turns."""
        generator = self._generator
        if generator is None:
            generator, self._np_random_seed = seeding.np_random(self._np_random_seed)
            self._generator = generator
        return generator

    @_np_random.setter
    def _np_random(self, generator: np.random.Generator) -> None:  # type: ignore[override]
        self._generator = generator

    def _reseed(self, seed: int) -> None:
        if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
            raise UsageError(f"a seed is a whole number from 0 upwards, not {seed!r}")
        self._generator, self._np_random_seed = None, seed

    @property
    def is_async(self) -> bool:
        """Whether hooks or tools are `async def`. If so, they run on an event loop."""
        return self._is_async

    def _drive(self, work: Coroutine[Any, Any, _T]) -> _T:
        return run_on_loop(work) if self._is_async else run_now(work)

    async def _away(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Await `work` here if the environment is asynchronous, else run it in a thread, or here if `blocks` is set."""
        if self._is_async:
            return await work
        return run_now(work) if blocks.get() else await blocking.run(lambda: run_now(work))

    async def _reset(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[list[Message], dict[str, Any]]:
        if self._is_started:
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
        self._mistakes, self._near_misses = Counter(), Counter()
        self._has_shown_form = False
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
            **self._call(self._own_details),
        }

    async def _start(self, task: Task) -> Any:
        """Begin an episode, after restoring the prompt and tools that the last `start` replaced."""
        if self._own_words is not None:
            self.system_prompt, self.tools = self._own_words
            self._own_words = None
        words = self.system_prompt, self.tools
        self._is_started = True
        try:
            opening = self._call(self.start, task)
            if type(opening) is CoroutineType:
                opening = await self._awaited(opening)
        finally:  # even a start() that raises must not leave its prompt or tools behind
            if self.system_prompt is not words[0] or self.tools is not words[1]:
                self._own_words = words
        if self.tools is not self._offered:
            self._offer(self.tools)
        return opening

    def _offer(self, tools: Toolset) -> None:
        """Set the tools that actions can call."""
        self._offered = tools
        self._is_async = type(self)._is_async or any(tool.is_async for tool in tools)
        self.action_space = ActionSpace(tools, self.dialect)

    async def _stop(self) -> None:
        """Let the author's `stop` free the episode's resources. An error in it does not change the episode's result."""
        self._is_started = False
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
        """Return the system message: the environment's prompt and the tool instructions. Cached."""
        cached, words = self._instructed, self.system_prompt
        now = (self.dialect, words, self.tools, self.max_turns)
        if cached is None or any(old is not new for old, new in zip(cached, now, strict=False)):
            opening = " ".join(part for part in (words, self.stated_limits) if part)
            text = "\n\n".join(part for part in (opening, self._tool_instructions()) if part)
            cached = self._instructed = (*now, text)
        return cached[4]

    @property
    def stated_limits(self) -> str:
        """The part of the system message that states which limits end an episode; empty without `states_turns`."""
        if not self.states_turns:
            return ""
        needs_calls = bool(len(self.tools)) and type(self).respond is Authoring.respond
        return limits_stated(self.max_turns, self.max_format_errors, needs_calls=needs_calls)

    def _tool_instructions(self) -> str:
        """Return the dialect's instructions, with the example call if the episode's tools include it."""
        if not len(self.tools):
            return ""
        text, example = self.dialect.instructions(self.tools, self.max_calls_per_turn), self.example_call
        if not text or example is None or example.name not in self.tools:
            return text
        return f"{text}\n\nFor example:\n{self.dialect.render('', [example], self.tools)}"

    def _choose(self, seed: int | None, options: Mapping[str, Any] | None) -> Task:
        """Return the task in the options, or one chosen by the seed or this instance's generator."""
        return select_task(self.tasks, self.split, options or {}, seed, lambda size: int(self.np_random.integers(size)))

    async def _step(self, action: Action) -> StepResult:
        if self._task is None or self._reason is not None:
            raise ResetNeeded("the episode has ended; call reset()" if self._task else "call reset() before step()")
        self._channels = self._zeros.copy()
        self._times = StepTimes()
        self._actions.append(action)
        if self.render_mode is not None:
            self._show([{"role": "assistant", "content": text_in(action)}])
        missed = self._near_miss(action) if self.lenient else None
        try:
            text, calls = self._read(action) if missed is None else ("", ())
            if missed is not None:
                observation = await self._run_missed(missed, self._shown_as(action))
            elif calls:
                observation = await self._run_all(text, calls, self.dialect.result if is_text(action) else tool_result)
            else:
                answer = self._call(self.respond, text)
                if type(answer) is CoroutineType:
                    answer = await self._awaited(answer)
                observation = [as_message(answer)]
                self._understood()
        except ToolError as mistake:
            self._format_errors += 1
            self._unreadable += 1
            self._mistakes[of_turn(mistake.mistake)] += 1
            problem = message_of(mistake)
            if not self.lenient and (missed := self._near_miss(action)) is not None:
                problem = self._explained(missed, problem, action)
            problem = bounded(problem, MAX_RESULT_CHARS)
            observation = refusals(action, f"Error: {problem}", self._calls) or [self.dialect.problem(problem)]
        except Exception as error:
            self._blame(error, None)
            raise
        if self._reason is None:
            self._reason = self._limit_reached()
        return self._settle(observation) if self._reason is None else await self._end(observation)

    async def _interrupt(self, reason: AnyReason) -> StepResult:
        if self._task is None or self._reason is not None:
            raise ResetNeeded("no episode is running")
        self._channels = self._zeros.copy()
        self._times = StepTimes()
        self._reason = reason
        return await self._end([])

    @property
    def step_times(self) -> StepTimes:
        """Breakdown of the last step's time. Not part of `info`, which is the same for the same actions."""
        return self._times

    def _limit_reached(self) -> Reason | None:
        if self._format_errors >= self.max_format_errors:
            return Reason.FORMAT_ERRORS
        if self._deadline is not None and time.monotonic() > self._deadline:
            return Reason.TIME
        return Reason.MAX_TURNS if len(self._actions) >= self.max_turns else None

    def _settle(self, observation: list[Message]) -> StepResult:
        """Pay the turn and return its step result."""
        turns, channels = self._turns, self._channels
        turns.append(channels)
        if self.render_mode is not None:
            self._show(observation)
        info = {"rewards": channels.copy(), "turn": len(turns)}
        pay = self.scheme.pay(turns, self._paid)
        self._paid += pay
        return StepResult(observation, pay, False, False, info)

    async def _end(self, observation: list[Message]) -> StepResult:
        """Grade the episode, settle its last turn and return the final step result."""
        began = time.monotonic()
        grades = self._call(self.grade)
        if type(grades) is CoroutineType:
            grades = await self._awaited(grades)
        self._times.grading = self._times.span("grade", began)
        self._channels.update(self._call(self._graded, grades))
        observation, reward, _, _, info = self._settle(observation)
        reason = self._reason or Reason.INFRASTRUCTURE
        info["ending"] = reason.value
        info["is_success"] = self._outcome() >= SOLVED_AT
        info["counts"] = {
            "calls": self._calls,
            "tool_errors": self._tool_errors,
            "format_errors": self._unreadable,
            **counts_of(self._mistakes),
            **{f"{NEAR_MISSES}{kind}": count for kind, count in self._near_misses.items()},
        }
        info.update(self._call(self._own_details))
        if self._is_started:
            await self._stop()
        ending = reason.ending
        return StepResult(observation, reward, ending is Ending.TERMINATED, ending is Ending.TRUNCATED, info)

    def _graded(self, grades: Any) -> dict[str, float]:
        """Return the channels that `grade` returned. Raises `UsageError` if they are not channels of this
        environment."""
        if grades is None:
            return {}
        if not isinstance(grades, Mapping):
            raise UsageError(
                f"{type(self).__name__}.grade() must return channels with their values, not {grades!r:.100}"
            )
        for name in grades:
            if name not in self._zeros:
                raise UsageError(unknown_channel(self, name))
        return finite(grades)

    def _own_details(self) -> dict[str, Any]:
        """Return the author's `details`. Raises `UsageError` if it uses a key that the engine sets."""
        details = dict(self.details())
        if reserved := [name for name in details if name in RESET_INFO or name in ENGINE_INFO]:
            raise UsageError(
                f"{type(self).__name__}.details() must not contain {reserved[0]!r}: the engine sets that key"
            )
        return details

    def _outcome(self) -> float:
        return sum(turn[OUTCOME] for turn in self._turns)

    def _show(self, messages: list[Message]) -> None:
        self._transcript.extend(messages)
