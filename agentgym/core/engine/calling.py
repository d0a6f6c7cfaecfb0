"""`Calling`: reads an action of the policy and runs its calls. `playing.Engine` runs the episode around them."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from types import CoroutineType
from typing import Any

from agentgym.base.errors import AgentGymError, InfrastructureError, Mistake, ToolError, of_call
from agentgym.core.dialects.near_misses import OtherForm, near_miss, several_calls
from agentgym.core.endings import Reason
from agentgym.core.engine.authoring import Authoring
from agentgym.core.engine.parallel import ParallelCall, batches, run_all
from agentgym.core.engine.spaces import Action, cut_off_problem, finish_of, is_text, text_in, with_ids
from agentgym.core.engine.steps import as_message, message_of, without_pictures
from agentgym.core.engine.threads import blocking, blocks
from agentgym.core.foreign import describe, ends_work, running_task
from agentgym.core.messages import Message, ToolCall, calls_of, tool_result, user, with_pictures
from agentgym.core.toolset import MAX_RESULT_CHARS, Tool, bounded

_Shown = Callable[[ToolCall, str], Message]
_ONE_TOO_MANY = "a message may have no more calls, so this call did not run."
_FORM_CHARS = 4_000
"""Longer calls are not written out for the model again."""
_TOO_LATE = "the episode has ended, so this call did not run."


class Calling(Authoring):
    """Reads an action and runs the calls in it, one after another or concurrently."""

    _calls: int
    """Number of calls so far."""
    _tool_errors: int
    _format_errors: int
    """Consecutive turns that could not be read."""
    _mistakes: Counter[Mistake]
    _near_misses: Counter[str]
    _has_shown_form: bool
    """Whether this episode has already shown the right form of a call."""

    def _read(self, action: Action) -> tuple[str, Sequence[ToolCall]]:
        """Return the text and the calls of an action. Raises `ToolError` if it cannot be read."""
        if finish_of(action) == "length":
            raise ToolError(cut_off_problem(action), mistake=Mistake.CUT_OFF)
        if not (isinstance(action, str) or is_text(action)):
            text, calls = text_in(action), calls_of(action)
        elif not len(self.tools):
            return text_in(action), ()
        else:
            parsed = self.dialect.parse(text_in(action), self.tools)
            if parsed.error is not None:
                raise ToolError(parsed.error, mistake=Mistake.UNREADABLE)
            text, calls = parsed.text, parsed.calls
        if len(calls) > self.max_calls_per_turn:
            most = self.max_calls_per_turn
            allowed = "one tool" if most == 1 else f"at most {most} tools"
            problem = f"Call {allowed} at a time, not {len(calls)}. None of them ran."
            raise ToolError(problem, mistake=Mistake.TOO_MANY_CALLS)
        return text, calls

    def _near_miss(self, action: Action) -> OtherForm | None:
        """Return the calls that an action has in another form than the dialect's, and count them."""
        if not len(self.tools) or finish_of(action) == "length":
            return None
        if isinstance(action, str) or is_text(action):
            missed = near_miss(text_in(action), self.tools, self.dialect, self.max_calls_per_turn)
        else:
            missed = several_calls(action, self.tools, self.max_calls_per_turn)
        if missed is not None:
            self._near_misses[missed.kind] += 1
        return missed

    def _explained(self, missed: OtherForm, problem: str, action: Action) -> str:
        """Return the message for a model whose call has another form: the right form once, then a reminder."""
        if not is_text(action):  # the message itself was right
            return problem
        if self._has_shown_form:
            return f"{missed.sentence} Write it in the form shown before."
        problem = f"{problem} {missed.sentence}"
        try:
            form = self.dialect.render("", missed.calls[: self.max_calls_per_turn], self.tools)
        except ValueError:  # not every dialect can express every call
            return problem
        if len(form) > _FORM_CHARS:
            return problem
        self._has_shown_form = True
        return f"{problem} Write exactly this, and nothing after it:\n{form}"

    async def _run_missed(self, missed: OtherForm, to_message: _Shown) -> list[Message]:
        """Run as many calls as a turn may have, without the reward for the format."""
        most, before = self.max_calls_per_turn, self._channels.get("format")
        calls = with_ids(missed.calls, self._calls)
        observation = await self._run_all("", calls[:most], to_message)
        if before is not None:
            self._channels["format"] = before
        return [*observation, *(to_message(call, f"Error: {_ONE_TOO_MANY}") for call in calls[most:])]

    def _shown_as(self, action: Action) -> _Shown:
        """Return how the results of a near miss are shown: an endpoint refuses results without a call of its own."""
        if not is_text(action):
            return tool_result
        return _as_user_message if self.dialect.name == "native" else self.dialect.result

    async def _run_all(self, text: str, calls: Sequence[ToolCall], to_message: _Shown) -> list[Message]:
        """Run the calls of a turn in order, after passing the accompanying text to `aside`. Each gets a result."""
        answer = None
        if self._hears_asides and text.strip():
            answer = self._call(self.aside, text)
            if type(answer) is CoroutineType:
                answer = await self._awaited(answer)
        calls = with_ids(calls, self._calls)
        observation: list[Message] = []
        for batch in (calls,) if len(calls) == 1 else self._batches(calls):
            if self._reason is not None:
                observation += [to_message(call, "Error: " + _TOO_LATE) for call in batch]
            elif len(batch) == 1:
                observation.append(await self._run(batch[0], to_message))
            else:
                observation += await self._run_parallel(batch, to_message)
        if len(calls) > 1:
            self._keep_ranges()
        return observation if answer is None else [*observation, as_message(answer)]

    def _batches(self, calls: Sequence[ToolCall]) -> Iterable[Sequence[ToolCall]]:
        """Return the calls in order, grouped into batches of calls that may run concurrently."""
        is_inline = blocks.get() and not self._is_async
        return [[call] for call in calls] if is_inline else batches(calls, self.tools)

    async def _run(self, call: ToolCall, to_message: _Shown) -> Message:
        """Run one call; the model's mistakes are returned as its result."""
        self._calls += 1
        try:
            tool = self.tools.get(call.name)
            arguments = tool.check(call.arguments)
            self._understood()
            began = time.monotonic()
            self._running[call.id] = call.name, began
            try:
                result = await self._invoke(tool, arguments)
            finally:
                self._running.pop(call.id, None)
                self._note_call(call, began)
            return self._result_message(call, tool, await self._concluded(call, result), to_message)
        except ToolError as mistake:
            return self._mistake_message(call, mistake, to_message)

    async def _run_parallel(self, calls: Sequence[ToolCall], to_message: _Shown) -> list[Message]:
        """Run independent calls concurrently, with the results and effects of running them in order."""
        parallel = [ParallelCall(self, call, self.tools.get(call.name)) for call in calls]
        valid = [run for run in parallel if run.is_valid]
        await run_all(valid, self._running, on_loop=self._is_async)
        self._times.calls += [self._times.span(run.call.name, *run.ran) for run in valid]
        return [await self._conclude_call(run, to_message) for run in parallel]

    async def _conclude_call(self, run: ParallelCall, to_message: _Shown) -> Message:
        """Apply a concurrent call, as if it ran now."""
        if self._reason is not None:
            return to_message(run.call, "Error: " + _TOO_LATE)
        self._calls += 1
        try:
            if run.is_valid:
                self._understood()
            result = await self._concluded(run.call, self._call(run.conclude))
            return self._result_message(run.call, run.tool, result, to_message)
        except ToolError as mistake:
            return self._mistake_message(run.call, mistake, to_message)

    async def _concluded(self, call: ToolCall, result: Any) -> Any:
        """Return a tool's result; if it is a function, call it and return its result."""
        if not callable(result):
            return result
        began = time.monotonic()
        self._running[call.id] = call.name, began
        try:
            return await blocking.run(lambda: self._call(result)) if self._is_async else self._call(result)
        finally:
            self._running.pop(call.id, None)
            self._note_call(call, began)

    def _note_call(self, call: ToolCall, began: float) -> None:
        """Record that a call that began at `began` (`time.monotonic`) has run."""
        self._times.calls.append(self._times.span(call.name, began))

    def _result_message(self, call: ToolCall, tool: Tool, result: Any, to_message: _Shown) -> Message:
        """Return the message that shows the result of a call."""
        content, pictures = without_pictures(result)
        return with_pictures(to_message(call, bounded(content, tool.max_chars)), pictures)

    def _mistake_message(self, call: ToolCall, mistake: ToolError, to_message: _Shown) -> Message:
        self._tool_errors += 1
        self._mistakes[of_call(mistake.mistake)] += 1
        return to_message(call, bounded(f"Error: {message_of(mistake)}", MAX_RESULT_CHARS))

    def _keep_ranges(self) -> None:
        """Clip each channel to its range in one turn: only `per_call` channels add up over several calls."""
        for name, value in self._channels.items():
            channel = self.channels[name]
            self._channels[name] = min(max(value, channel.low), channel.high)

    async def _invoke(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        method = tool.bound_to(self)
        if self._is_async and not tool.is_async:
            # `_call` runs inside the thread so that only our own errors leave it: a future cannot hold `StopIteration`.
            return await blocking.run(lambda: self._call(method, **arguments))
        result = self._call(method, **arguments)
        return await self._awaited(result) if type(result) is CoroutineType else result

    @property
    def running_tool(self) -> tuple[str, float] | None:
        """The tool that has been running longest, and its start (`time.monotonic`); other threads may read this."""
        return min(self._running.copy().values(), key=lambda tool: tool[1], default=None)

    def _understood(self) -> None:
        self._format_errors = 0
        if "format" in self._zeros:
            self._channels["format"] = 1.0

    def _call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call an author's function. The result may still need to be awaited."""
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
        """Mark the episode as failed, unless `error` is the model's mistake; wrap foreign errors."""
        if isinstance(error, ToolError) or ends_work(error, task):
            return
        self._reason = Reason.INFRASTRUCTURE
        if not isinstance(error, AgentGymError):
            where = f"{type(self).__name__} broke on task {self.task.id!r}"
            raise InfrastructureError(f"{where}: {describe(error)}") from error


def _as_user_message(call: ToolCall, content: str) -> Message:
    return user(f"Result of {call.name}:\n{content}")
