"""`Row`: one unbroken conversation of an agent, with its tokens as they were sampled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from agentgym.dialects import Dialect
from agentgym.endings import Reason
from agentgym.errors import InfrastructureError
from agentgym.interop.gateway.cutting import after_first_call, before_stop, stopped
from agentgym.interop.gateway.draft import Draft, certain, certain_of_calls
from agentgym.interop.gateway.errors import Refused
from agentgym.interop.gateway.prompting import Prompting
from agentgym.interop.gateway.requests import ChatRequest, Key, key_of, reply_message
from agentgym.messages import Message, ToolCall, with_call_ids
from agentgym.policy import Generation, TokenPolicy
from agentgym.rollout.conversation import Conversation
from agentgym.rollout.limits import Limits
from agentgym.trajectory import Tokens, Turn


@dataclass(frozen=True)
class Reply:
    """What the model says next."""

    message: dict[str, Any]
    """As chat endpoints write it."""
    finish: str
    """`stop`, `tool_calls` or `length`."""
    prompt_tokens: int
    completion_tokens: int
    logprobs: list[tuple[str, float]]
    """The sampled tokens as text, and their log-probabilities, if asked for; without the token that ends the turn."""


@dataclass(frozen=True)
class Drawn:
    """A sampled turn that is not yet part of its conversation."""

    request: ChatRequest
    talk: Conversation
    heard: list[Message]
    said: Generation


@dataclass(frozen=True)
class RowTurn:
    """A turn of the model, and how many calls it made."""

    text: str
    span: tuple[int, int]
    calls: int
    is_readable: bool


@dataclass(frozen=True)
class RowSettings:
    """What all rows of a gateway share."""

    policy: TokenPolicy
    dialect: Dialect
    limits: Limits
    release: Callable[[str], None]
    """Lets the policy drop a conversation."""
    max_calls: int = 1


class Row:
    """A conversation that has only ever grown. Its tokens are never rendered or tokenised again.

    Args:
        settings: The policy and its limits.
        request: The request that begins it.
        name: Names it to the policy.
    """

    def __init__(self, settings: RowSettings, request: ChatRequest, name: str):
        self._settings, self.name = settings, name
        self.schemas = request.tools
        self._prompting = Prompting(settings.dialect, request.tools, settings.max_calls)
        # A codec keeps the tools of its conversation, which differ from agent to agent.
        self._codec = copy(settings.policy.codec)
        self._talk = Conversation(settings.policy, settings.limits, self._codec)
        self.opening = self._prompting.opening(request.messages)
        self._talk.begin(self.opening, request.tools)
        self._known: list[Key] = [*map(key_of, request.messages)]
        self.turns: list[RowTurn] = []
        self.observations: list[list[Message]] = []
        """What followed each turn, as far as it is known."""
        self._ids: set[str] = set()
        self._last: Reply | None = None
        self._asked: ChatRequest | None = None
        """What the model is answering."""

        self._idle = asyncio.Event()

    @property
    def tokens(self) -> Tokens:
        """The tokens so far."""
        return self._talk.tokens

    @property
    def is_busy(self) -> bool:
        """Whether the model is saying something."""
        return self._asked is not None

    @property
    def calls(self) -> int:
        """How many calls the model has made in it."""
        return sum(turn.calls for turn in self.turns)

    def extends(self, request: ChatRequest) -> bool:
        """Whether a request is this conversation with something new at its end, which is not the model's."""
        known = len(self._known)
        keys = [key_of(message) for message in request.messages]
        new = request.messages[known:]
        return (
            bool(self.turns and new)
            and not self.is_busy
            and keys[:known] == self._known
            and all(message.get("role") != "assistant" for message in new)
            and request.tools == self.schemas
        )

    async def answered(self, request: ChatRequest) -> Reply | None:
        """Return the last reply if a request asks for it again, as a client does that has not received it.

        If the model is answering the same request, wait for that.
        """
        asked = [*map(key_of, request.messages)]
        if request.tools != self.schemas:
            return None
        if self._asked is not None and asked == [*map(key_of, self._asked.messages)]:
            await self._idle.wait()
        return self._last if asked == self._known[:-1] else None

    async def sample(self, request: ChatRequest, draft: Draft | None = None) -> Drawn:
        """Sample the next message. The conversation stays as it is until `keep`, whatever happens meanwhile.

        Args:
            request: What it answers.
            draft: Is told what has been sampled so far.

        Raises:
            Refused: The conversation is as long as it may be.
            InfrastructureError: The policy broke.
        """
        talk, heard = self._heard(request)
        limits = self._settings.limits
        room = talk.room()
        if isinstance(room, Reason):
            raise Refused(f"the conversation is too long: {room.value}", code="context_length_exceeded")
        room = min(room, request.max_new_tokens or room)
        self._asked = request
        self._idle.clear()
        if draft is not None:
            draft.begin(lambda ids: self._certain(talk, request, ids))
        try:
            said = await talk.sample(room, self.name, limits.generation_timeout_s, draft and draft.add)
        finally:
            self._asked = None
            self._idle.set()
        if not said.ids:
            raise InfrastructureError(f"policy {self._settings.policy.name!r} sampled nothing in its time")
        return Drawn(request, talk, heard, self._ended(said, request))

    def keep(self, drawn: Drawn) -> Reply:
        """Add a sampled message and what it answers to the conversation."""
        request, talk, said = drawn.request, drawn.talk, drawn.said
        before, prefix = len(talk.tokens), talk.turn_prefix()
        text, span = talk.say(said)
        heard = prefix + before_stop(text.removeprefix(prefix), request.stop)
        message, is_readable = self._read(heard, request.one_call)
        if self.turns:
            self.observations.append(drawn.heard)
        self._talk = talk
        self._known = [*map(key_of, request.messages), key_of(message)]
        calls = message.get("tool_calls", [])
        self.turns.append(RowTurn(text, span, len(calls), is_readable))
        finish = "tool_calls" if calls else "stop" if said.finish == "stop" else "length"
        logprobs = self._logprobs(said) if request.wants_logprobs else []
        self._last = Reply(message, finish, before, len(said.ids), logprobs)
        return self._last

    def _certain(self, talk: Conversation, request: ChatRequest, ids: Sequence[int]) -> str:
        """Return the text of the first tokens of a turn, as far as the message is sure to begin with it."""
        unsaid = getattr(self._codec, "before_end", "")
        text = talk.turn_prefix() + certain(self._codec.decode(ids), request.stop, unsaid)
        tools = self._prompting.tools
        return certain_of_calls(self._settings.dialect, text, tools) if len(tools) else text

    def _heard(self, request: ChatRequest) -> tuple[Conversation, list[Message]]:
        """Return the conversation with what is new in a request, and that as the dialect writes it."""
        talk = self._talk.copy()
        if not self.turns:
            return talk, []
        self._prompting.note_all(request.messages)
        heard = self._prompting.written(request.messages[len(self._known) :])
        talk.hear(heard)
        return talk, heard

    def _ended(self, said: Generation, request: ChatRequest) -> Generation:
        """Return a turn up to where the agent wants it ended."""
        whole, decode = len(said.ids), self._codec.decode
        if request.stop:
            said = stopped(said, request.stop, decode)
        if request.one_call and len(tools := self._prompting.tools):
            said = after_first_call(said, lambda text: self._settings.dialect.parse(text, tools), decode)
        if len(said.ids) < whole:
            self.release()  # what the policy keeps is of a longer turn
        return said

    def _logprobs(self, said: Generation) -> list[tuple[str, float]]:
        texts = (self._codec.decode([one]) for one in said.ids)
        return [(text, logprob) for text, logprob in zip(texts, said.logprobs, strict=True) if text]

    def release(self) -> None:
        """Let the policy drop what it keeps for the conversation."""
        self._settings.release(self.name)

    def _read(self, text: str, one_call: bool) -> tuple[dict[str, Any], bool]:
        """Return a turn as a message. A call that cannot be read is text: the agent decides what becomes of it."""
        tools = self._prompting.tools
        if not len(tools):
            return reply_message(text, ()), True
        parsed = self._settings.dialect.parse(text, tools)
        if parsed.error is not None or (one_call and len(parsed.calls) > 1):
            return reply_message(text, ()), False
        calls = self._numbered(parsed.calls)
        self._prompting.note(calls)
        return reply_message(parsed.text, calls), True

    def _numbered(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Return calls with ids that no other of the conversation has."""
        entries = [call.to_dict() for call in calls]
        named = with_call_ids({"tool_calls": entries}, self._ids).get("tool_calls", [])
        return [ToolCall(call.name, call.arguments, entry["id"]) for call, entry in zip(calls, named, strict=True)]

    def as_turns(self) -> list[Turn]:
        """Return the turns of a trajectory, without rewards."""
        following = [*self.observations, *([[]] * (len(self.turns) - len(self.observations)))]
        return [Turn(turn.text, heard, {}, 0.0, turn.span) for turn, heard in zip(self.turns, following, strict=True)]
