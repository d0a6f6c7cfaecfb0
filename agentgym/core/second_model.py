"""`SecondModel`: another model in an episode, such as a simulated user or a judge, with limits, a log and costs.

Its output reaches the policy only if the environment passes it on. If it breaks, the episode fails rather than counting
against the policy.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.base.retries import doubled_s
from agentgym.core.foreign import describe, ends_work, for_future, running_task
from agentgym.core.messages import Message, assistant, system, user

Ask = Callable[[list[Message]], str | Awaitable[str]]
"""Returns the model's next message in a conversation. Plain functions run in a thread."""


@dataclass
class SecondModelCost:
    """Costs of a second model in the current episode."""

    calls: int = 0
    retries: int = 0
    seconds: float = 0.0
    characters_in: int = 0
    characters_out: int = 0


@dataclass
class SecondModel:
    """Another model that takes part in the episodes of one environment instance.

    Call `begin` in `start`. Then `reply` continues a conversation, and `ask` asks independent questions.
    """

    ask_model: Ask
    """Calls the model: an endpoint, a checkpoint, a rule."""
    system_prompt: str = ""
    """The default instructions; `begin` can override them."""
    max_calls: int = 100
    """Maximum calls per episode; one more is an infrastructure failure (lower the environment's `max_turns`)."""
    max_chars: int = 8_000
    """Longer answers are cut."""
    timeout_s: float = 60.0
    """Wall-clock limit for one call, in seconds."""
    retries: int = 2
    """Number of retries for a call that raises, times out or returns nothing."""
    conversation: list[Message] = field(default_factory=list)
    """The conversation held through `reply` since `begin`. The second model is its assistant."""
    questions: list[Message] = field(default_factory=list)
    """The questions and answers of `ask` since `begin`."""
    cost: SecondModelCost = field(default_factory=SecondModelCost)
    """Costs since `begin`."""

    def __post_init__(self) -> None:
        if self.max_calls < 1 or self.timeout_s <= 0 or self.retries < 0 or self.max_chars < 1:
            raise UsageError("a second model needs max_calls and max_chars from 1, timeout_s above 0, retries from 0")

    def begin(self, system_prompt: str | None = None) -> None:
        """Start a new episode: clear the log and the costs.

        Args:
            system_prompt: Instructions for this episode, such as who the user is and what they want.
        """
        prompt = self.system_prompt if system_prompt is None else system_prompt
        self.conversation = [system(prompt)] if prompt else []
        self.questions, self.cost = [], SecondModelCost()

    async def reply(self, text: str) -> str:
        """Return the model's answer in the conversation.

        Raises:
            InfrastructureError: The model did not answer, or the call limit was reached.
        """
        reply = await self._say([*self.conversation, user(text)])
        self.conversation += [user(text), assistant(reply)]
        return reply

    async def ask(self, question: str, system_prompt: str = "") -> str:
        """Return the model's answer to an independent question, as for a judge. Raises as `reply` does."""
        reply = await self._say([*([system(system_prompt)] if system_prompt else []), user(question)])
        self.questions += [user(question), assistant(reply)]
        return reply

    def record(self) -> dict[str, Any]:
        """Return the costs and all messages as JSON data: for `Env.details`, so that trajectories record them.

        It omits the seconds, which differ between two runs of one episode.
        """
        cost = {name: value for name, value in vars(self.cost).items() if name != "seconds"}
        return {"cost": cost, "conversation": list(self.conversation), "questions": list(self.questions)}

    async def _say(self, messages: list[Message]) -> str:
        if self.cost.calls >= self.max_calls:
            raise InfrastructureError(f"the second model got more than {self.max_calls} calls in one episode")
        self.cost.calls += 1
        self.cost.characters_in += sum(len(str(message.get("content"))) for message in messages)
        began = time.perf_counter()
        try:
            reply = (await self._call_with_retries(messages))[: self.max_chars]
        finally:
            self.cost.seconds += time.perf_counter() - began
        self.cost.characters_out += len(reply)
        return reply

    async def _call_with_retries(self, messages: list[Message]) -> str:
        """Call the model until it answers or the retries are used up."""
        problem = ""
        for attempt in range(self.retries + 1):
            if attempt:
                self.cost.retries += 1
                await asyncio.sleep(doubled_s(0.1, attempt - 1, 2.0))
            task = running_task()
            try:
                reply = await self._call_once(messages)
            except BaseException as error:
                if ends_work(error, task) or isinstance(error, UsageError):
                    raise
                problem = f"no answer in {self.timeout_s:g} s" if isinstance(error, TimeoutError) else describe(error)
                continue
            if isinstance(reply, str) and reply.strip():
                return reply
            problem = f"it returned {reply!r}, not text"
        raise InfrastructureError(f"the second model could not be asked: {problem}")

    async def _call_once(self, messages: list[Message]) -> Any:
        async with asyncio.timeout(self.timeout_s):
            if inspect.iscoroutinefunction(self.ask_model):
                return await self.ask_model(list(messages))
            reply = await asyncio.to_thread(self._call_blocking, list(messages))
            return await reply if inspect.isawaitable(reply) else reply

    def _call_blocking(self, messages: list[Message]) -> Any:
        try:
            return self.ask_model(messages)
        except BaseException as error:
            raise for_future(error) from error
