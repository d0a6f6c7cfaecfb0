"""`ConversationRow`: one unbroken conversation of an agent, with the sampled tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from agentgym.base import strict_json
from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.dialects import Dialect, is_template
from agentgym.core.endings import Reason
from agentgym.core.engine.spaces import Finish
from agentgym.core.messages import (
    Message,
    ToolCall,
    calls_of,
    shown_pictures,
    system,
    text_of,
    with_call_ids,
    with_pictures,
)
from agentgym.core.policy import Generation, Seat, TokenPolicy
from agentgym.core.trajectory import Tokens, Turn
from agentgym.interop.served.gateway.request import ChatRequest, Key, RequestRefused, key_of
from agentgym.interop.served.gateway.turn import (
    TurnDraft,
    before_stop,
    certain_text,
    certain_text_of_calls,
    cut_after_call,
    cut_at_stop,
)
from agentgym.rollout.conversation import Conversation
from agentgym.rollout.limits import Limits


@dataclass
class Prompting:
    """Writes a conversation as the model was trained on it: tools, calls and results in its dialect.

    Args:
        dialect: How the model writes calls.
        schemas: Schemas of the tools.
        max_calls: Calls that the prompt allows in a turn.

    Raises:
        RequestRefused: A tool's name or schema cannot be used.
    """

    dialect: Dialect
    schemas: Sequence[Mapping[str, Any]]
    max_calls: int = 1
    _calls: dict[str, ToolCall] = field(default_factory=dict)
    """Calls so far, by id."""

    def __post_init__(self) -> None:
        try:
            self.tools = Seat.of(self.schemas, self.dialect, 0, self.max_calls).tools
        except UsageError as error:
            raise RequestRefused(str(error)) from error

    def opening(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages that begin a conversation, with the dialect's explanation of the tools."""
        explanation = self.dialect.instructions(self.tools, self.max_calls) if len(self.tools) else ""
        rendered = self.render(messages)
        if not explanation:
            return rendered
        if rendered[0].get("role") != "system":
            return [system(explanation), *rendered]
        prompt = text_of(rendered[0])
        return [system(f"{prompt}\n\n{explanation}" if prompt else explanation), *rendered[1:]]

    def render(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages with calls and results in the dialect."""
        return [self._render(message) for message in messages]

    def note(self, calls: Sequence[ToolCall]) -> None:
        """Remember calls; their results will refer to their ids."""
        self._calls |= {call.id: call for call in calls}

    def note_all(self, messages: Sequence[Message]) -> None:
        """Remember the calls in messages by the agent's ids."""
        for message in messages:
            self.note(calls_of(message))

    def _render(self, message: Message) -> Message:
        if message.get("role") == "tool":
            call = self._calls.get(message.get("tool_call_id", ""), ToolCall("tool"))
            return with_pictures(self.dialect.result(call, text_of(message)), shown_pictures([message]))
        calls = calls_of(message)
        self.note(calls)
        if not calls or is_template(self.dialect.name):
            return message
        try:
            text = self.dialect.render(text_of(message), calls, self.tools)
        except ValueError as error:
            raise RequestRefused(f"an earlier message cannot be written in the model's dialect: {error}") from error
        return {"role": "assistant", "content": text}


@dataclass(frozen=True)
class ChatReply:
    """The next message of a conversation."""

    message: dict[str, Any]
    """In the format of chat endpoints."""
    finish: str
    """`stop`, `tool_calls` or `length`."""
    prompt_tokens: int
    completion_tokens: int
    logprobs: list[tuple[str, float]]
    """The sampled tokens as text with their log-probabilities, if requested; without the token that ends the turn."""


@dataclass(frozen=True)
class SampledTurn:
    """A sampled turn that is not yet part of its conversation."""

    request: ChatRequest
    talk: Conversation
    observation: list[Message]
    turn: Generation


@dataclass(frozen=True)
class RowTurn:
    """A turn of the model and its number of calls."""

    text: str
    span: tuple[int, int]
    calls: int
    is_readable: bool
    finish: Finish


@dataclass(frozen=True)
class RowSettings:
    """Shared by all rows of a gateway."""

    policy: TokenPolicy
    dialect: Dialect
    limits: Limits
    release: Callable[[str], None]
    """Lets the policy drop a conversation."""
    max_calls: int = 1


class ConversationRow:
    """A conversation that has only been appended to. Its tokens are never rendered or tokenised again.

    Args:
        settings: The policy and its limits.
        request: The request that begins it.
        name: The policy's name for the conversation.
    """

    def __init__(self, settings: RowSettings, request: ChatRequest, name: str):
        self._settings, self.name = settings, name
        self.schemas = request.tools
        self._prompting = Prompting(settings.dialect, request.tools, settings.max_calls)
        # A codec stores the tools of its conversation, which differ between agents.
        self._codec = copy(settings.policy.codec)
        self._talk = Conversation(settings.policy, settings.limits, self._codec)
        self.opening = self._prompting.opening(request.messages)
        self._talk.begin(self.opening, request.tools)
        self._keys: list[Key] = _keys(request)
        """Keys of the messages so far."""

        self.turns: list[RowTurn] = []
        self.observations: list[list[Message]] = []
        """The messages after each turn but the last."""

        self._ids: set[str] = set()
        self._last: ChatReply | None = None
        self._request: ChatRequest | None = None
        """The request being answered."""

        self._idle = asyncio.Event()

    @property
    def tokens(self) -> Tokens:
        """The tokens so far."""
        return self._talk.tokens

    @property
    def is_busy(self) -> bool:
        """Whether a turn is being sampled."""
        return self._request is not None

    @property
    def calls(self) -> int:
        """Number of calls that the model has made."""
        return sum(turn.calls for turn in self.turns)

    def extends(self, request: ChatRequest) -> bool:
        """Whether a request is this conversation followed by new messages, none of them the model's."""
        size = len(self._keys)
        new = request.messages[size:]
        return (
            bool(self.turns and new)
            and not self.is_busy
            and _keys(request)[:size] == self._keys
            and all(message.get("role") != "assistant" for message in new)
            and request.tools == self.schemas
        )

    async def repeated(self, request: ChatRequest) -> ChatReply | None:
        """Return the last reply if a request repeats its request, as clients do that have not received the reply.

        If the same request is still being answered, wait for its reply.
        """
        keys = _keys(request)
        if request.tools != self.schemas:
            return None
        if self._request is not None and keys == _keys(self._request):
            await self._idle.wait()
        return self._last if keys == self._keys[:-1] else None

    async def sample(self, request: ChatRequest, draft: TurnDraft | None = None) -> SampledTurn:
        """Sample the next message. The conversation does not change until `keep`.

        Args:
            request: The request to answer.
            draft: Receives the tokens as they are sampled.

        Raises:
            RequestRefused: The conversation has reached its maximum length.
            InfrastructureError: The policy failed.
        """
        talk, observation = self._observe(request)
        limits = self._settings.limits
        max_tokens = talk.tokens_left()
        if isinstance(max_tokens, Reason):
            raise RequestRefused(f"the conversation is too long: {max_tokens.value}", code="context_length_exceeded")
        max_tokens = min(max_tokens, request.max_new_tokens or max_tokens)
        self._request = request
        self._idle.clear()
        if draft is not None:
            draft.begin(lambda ids: self._certain(talk, request, ids))
        try:
            turn = await talk.sample(max_tokens, self.name, limits.generation_timeout_s, draft and draft.add)
        finally:
            self._request = None
            self._idle.set()
        if not turn.ids:
            raise InfrastructureError(f"policy {self._settings.policy.name!r} sampled no token within its time limit")
        return SampledTurn(request, talk, observation, self._cut(turn, request))

    def keep(self, sample: SampledTurn) -> ChatReply:
        """Add a sampled message and the messages that it answers to the conversation."""
        request, talk, turn = sample.request, sample.talk, sample.turn
        prompt_tokens, prefix = len(talk.tokens), talk.turn_prefix()
        text, span = talk.say(turn)
        message_text = prefix + before_stop(text.removeprefix(prefix), request.stop)
        if is_whole := turn.finish == "stop":
            message, is_readable = self._message(message_text, request.one_call)
        else:  # nothing in a turn that was cut off is a call
            message, is_readable = _chat_message(message_text, ()), False
        if self.turns:
            self.observations.append(sample.observation)
        self._talk = talk
        self._keys = [*_keys(request), key_of(message)]
        calls = message.get("tool_calls", [])
        self.turns.append(RowTurn(text, span, len(calls), is_readable, turn.finish))
        finish = "length" if not is_whole else "tool_calls" if calls else "stop"
        logprobs = self._logprobs(turn) if request.wants_logprobs else []
        self._last = ChatReply(message, finish, prompt_tokens, len(turn.ids), logprobs)
        return self._last

    def _certain(self, talk: Conversation, request: ChatRequest, ids: Sequence[int]) -> str:
        """Return the part of a partial turn's text that the message is certain to begin with."""
        ending = getattr(self._codec, "before_end", "")
        text = talk.turn_prefix() + certain_text(self._codec.decode(ids), request.stop, ending)
        tools = self._prompting.tools
        return certain_text_of_calls(self._settings.dialect, text, tools) if len(tools) else text

    def _observe(self, request: ChatRequest) -> tuple[Conversation, list[Message]]:
        """Return the conversation extended by the new messages of a request, and those messages in the dialect."""
        talk = self._talk.copy()
        if not self.turns:
            return talk, []
        self._prompting.note_all(request.messages)
        observation = self._prompting.render(request.messages[len(self._keys) :])
        talk.hear(observation)
        return talk, observation

    def _cut(self, turn: Generation, request: ChatRequest) -> Generation:
        """Return a turn, cut where the request wants it to end."""
        sampled, decode = len(turn.ids), self._codec.decode
        if request.stop:
            turn = cut_at_stop(turn, request.stop, decode)
        if request.one_call and len(tools := self._prompting.tools):
            turn = cut_after_call(turn, lambda text: self._settings.dialect.parse(text, tools), decode)
        if len(turn.ids) < sampled:
            self.release()  # the policy's cache has the longer turn
        return turn

    def _logprobs(self, turn: Generation) -> list[tuple[str, float]]:
        texts = (self._codec.decode([token]) for token in turn.ids)
        return [(text, logprob) for text, logprob in zip(texts, turn.logprobs, strict=True) if text]

    def release(self) -> None:
        """Let the policy drop its state for the conversation."""
        self._settings.release(self.name)

    def _message(self, text: str, one_call: bool) -> tuple[dict[str, Any], bool]:
        """Return a turn as a message, and whether it could be parsed. An unparsable turn becomes plain text."""
        tools = self._prompting.tools
        if not len(tools):
            return _chat_message(text, ()), True
        parsed = self._settings.dialect.parse(text, tools)
        if parsed.error is not None or (one_call and len(parsed.calls) > 1):
            return _chat_message(text, ()), False
        calls = self._with_ids(parsed.calls)
        self._prompting.note(calls)
        return _chat_message(parsed.text, calls), True

    def _with_ids(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Return calls with ids that are unique in the conversation."""
        entries = with_call_ids({"tool_calls": [call.to_dict() for call in calls]}, self._ids).get("tool_calls", [])
        return [ToolCall(call.name, call.arguments, entry["id"]) for call, entry in zip(calls, entries, strict=True)]

    def as_turns(self) -> list[Turn]:
        """Return the turns of a trajectory, without rewards."""
        observations = [*self.observations, *([[]] * (len(self.turns) - len(self.observations)))]
        return [
            Turn(turn.text, observation, {}, 0.0, turn.span, finish=turn.finish)
            for turn, observation in zip(self.turns, observations, strict=True)
        ]


def _keys(request: ChatRequest) -> list[Key]:
    return [*map(key_of, request.messages)]


def _chat_message(text: str, calls: Sequence[ToolCall]) -> dict[str, Any]:
    """Return a turn as a message of a chat endpoint."""
    message: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
    if calls:
        message["tool_calls"] = [_chat_call(call) for call in calls]
    return message


def _chat_call(call: ToolCall) -> dict[str, Any]:
    arguments = strict_json.write(dict(call.arguments))
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
