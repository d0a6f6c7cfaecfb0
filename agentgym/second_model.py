"""`SecondModel`: another model in an episode, such as a simulated user or a judge, with limits, a log and costs.

Its output reaches the policy only if the environment passes it on. If it breaks, the episode has failed: that is not
the policy's fault.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from agentgym.errors import InfrastructureError, UsageError
from agentgym.foreign.errors import describe, ends_work, for_future, running_task
from agentgym.messages import Message, assistant, system, user
from agentgym.retrying import doubled_s

Ask = Callable[[list[Message]], str | Awaitable[str]]
"""Returns the model's next message in a conversation. Plain functions run in a thread."""


@dataclass
class Cost:
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
    """How often a call is retried that raised, timed out or returned nothing."""
    conversation: list[Message] = field(default_factory=list)
    """Messages to it and its answers in `reply`, since `begin`. In it, the second model is the assistant."""
    questions: list[Message] = field(default_factory=list)
    """Questions to it and its answers in `ask`, since `begin`."""
    cost: Cost = field(default_factory=Cost)
    """Costs since `begin`."""

    def __post_init__(self) -> None:
        if self.max_calls < 1 or self.timeout_s <= 0 or self.retries < 0 or self.max_chars < 1:
            raise UsageError("a second model needs max_calls and max_chars from 1, timeout_s above 0, retries from 0")

    def begin(self, system_prompt: str | None = None) -> None:
        """Forget the last episode.

        Args:
            system_prompt: Instructions for this episode, such as who the user is and what they want.
        """
        prompt = self.system_prompt if system_prompt is None else system_prompt
        self.conversation = [system(prompt)] if prompt else []
        self.questions, self.cost = [], Cost()

    async def reply(self, text: str) -> str:
        """Return the model's answer in the conversation.

        Raises:
            InfrastructureError: The model could not be asked, or too many calls were made.
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
            raise InfrastructureError(f"the second model was asked more than {self.max_calls} times in one episode")
        self.cost.calls += 1
        self.cost.characters_in += sum(len(str(message.get("content"))) for message in messages)
        began = time.perf_counter()
        try:
            reply = (await self._tried(messages))[: self.max_chars]
        finally:
            self.cost.seconds += time.perf_counter() - began
        self.cost.characters_out += len(reply)
        return reply

    async def _tried(self, messages: list[Message]) -> str:
        """Ask until there is an answer or no retry is left."""
        problem = ""
        for attempt in range(self.retries + 1):
            if attempt:
                self.cost.retries += 1
                await asyncio.sleep(doubled_s(0.1, attempt - 1, 2.0))
            task = running_task()
            try:
                reply = await self._once(messages)
            except BaseException as error:
                if ends_work(error, task) or isinstance(error, UsageError):
                    raise
                problem = f"no answer in {self.timeout_s:g} s" if isinstance(error, TimeoutError) else describe(error)
                continue
            if isinstance(reply, str) and reply.strip():
                return reply
            problem = f"it returned {reply!r}, not text"
        raise InfrastructureError(f"the second model could not be asked: {problem}")

    async def _once(self, messages: list[Message]) -> Any:
        async with asyncio.timeout(self.timeout_s):
            if inspect.iscoroutinefunction(self.ask_model):
                return await self.ask_model(list(messages))
            reply = await asyncio.to_thread(self._asked, list(messages))
            return await reply if inspect.isawaitable(reply) else reply

    def _asked(self, messages: list[Message]) -> Any:
        try:
            return self.ask_model(messages)
        except BaseException as error:
            raise for_future(error) from error
