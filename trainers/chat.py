"""Converts between chat messages and token ids, for any tokenizer with a chat template. Never re-renders the history.

To get the tokens that follow a model turn, the codec renders a short placeholder conversation with the observation and
takes what the template adds after the assistant's turn.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agentgym.base import strict_json
from agentgym.base.errors import UsageError
from agentgym.base.template_trial import try_templates
from agentgym.core.dialects.template import TOOLS_NAMES
from agentgym.core.foreign import describe
from agentgym.core.messages import Message, ToolCall, as_template_content, calls_of, text_of, without_pictures
from agentgym.trainers.seating import common

_OTHERS = ("user", "tool")
"""Roles whose text comes from outside: not from the model or the environment's author."""
_MARK = "\ufdd0"
"""A Unicode noncharacter."""
_CUT, _LITERAL = f"{_MARK}\ufdd1", f"{_MARK}\ufdd2"
"""Where to split a text, so that no token spans the split; and an escaped `_MARK` of the text itself."""
_BARRED = re.compile(r"<[|｜].+[|｜]>")
"""Some tokenizers do not declare role tokens as special, but follow this naming."""


class ControlTokens:
    """Keeps messages free of control tokens.

    Args:
        tokenizer: A transformers tokenizer.
        place: The picture placeholder. It is escaped for all roles, since an engine would expect a picture for it.
    """

    def __init__(self, tokenizer: Any, place: str = ""):
        self._tokenizer = tokenizer
        added = tokenizer.added_tokens_decoder.values()
        declared = {str(token.content) for token in added if token.special or _BARRED.fullmatch(str(token.content))}
        self._place = _begins([place])
        self._any = _begins({*declared, *tokenizer.all_special_tokens, place})

    def only_spelled(self, message: Mapping[str, Any]) -> Any:
        """Return a message's content, marked where `encode` must not produce a control token."""
        begins = self._any if message.get("role") in _OTHERS else self._place
        content = message.get("content", "")
        if isinstance(content, str):
            return _cut(content, begins)
        return [_cut_block(block, begins) for block in content] if isinstance(content, list | tuple) else content

    def encode(self, text: str) -> list[int]:
        """Return the ids of a rendered conversation, without the tokens that the tokenizer would add around it."""
        pieces = [piece.replace(_LITERAL, _MARK) for piece in text.split(_CUT)]
        return [token for piece in pieces for token in self._tokenizer.encode(piece, add_special_tokens=False)]


def _begins(names: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for the first letters of tokens. A token of one letter cannot be split."""
    alternatives = "|".join(re.escape(name) for name in sorted(names) if len(name) > 1)
    return re.compile(rf"(?={alternatives or '(?!)'})(.)", re.DOTALL)


def _cut(text: str, begins: re.Pattern[str]) -> str:
    return begins.sub(rf"\1{_CUT}", text.replace(_MARK, _LITERAL))


def _cut_block(block: Any, begins: re.Pattern[str]) -> Any:
    is_text = isinstance(block, Mapping) and isinstance(block.get("text"), str)
    return {**block, "text": _cut(block["text"], begins)} if is_text else block


ASKED = {"role": "user", "content": "?"}
SAID = "\u2042"
"""Placeholder for the text of the model: a character that no template writes itself."""
_RENDERING_MARK = "\u2051"
_TOOL = {
    "type": "function",
    "function": {
        "name": "probe_of_tools",
        "description": "Probe.",
        "parameters": {"type": "object", "properties": {"words": {"type": "string", "description": "Words."}}},
    },
}
_CALL = ToolCall("probe_of_calls", {"words": "a"}, "call00001").to_dict()
_NO_SPACE = re.compile(r"\s+")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Abilities:
    """Features of a chat template. The renderer works around missing ones."""

    system: bool
    """System messages; otherwise their text is prepended to the first user message."""
    results: bool
    """Tool messages; otherwise they become user messages with `<tool_response>` tags."""
    repeats: bool
    """Two user messages in a row; otherwise they are joined."""
    calls: bool
    """Tool calls in an opening conversation; otherwise they become text in `<tool_call>` tags."""
    tools: bool
    """Tool schemas; otherwise the dialect explains the tools."""

    @property
    def workarounds(self) -> list[str]:
        """Descriptions of the rewriting, for a log line."""
        descriptions = {
            "tool results are sent as user messages": self.results,
            "the system message is put into the first user message": self.system,
            "user messages in a row are joined": self.repeats,
        }
        return [text for text, is_native in descriptions.items() if not is_native]


class Renderer:
    """Renders conversations as text.

    Args:
        tokenizer: A transformers tokenizer or processor.
        template_kwargs: Arguments of the template.

    Raises:
        UsageError: The chat template is missing, cannot render a turn of the model, or takes too much memory or time.
    """

    def __init__(self, tokenizer: Any, *, template_kwargs: Mapping[str, Any] | None = None):
        self.name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        if not getattr(tokenizer, "chat_template", None):
            raise UsageError(
                f"the tokenizer {self.name!r} has no chat template, so its model is not a chat model; use the "
                "instruction model of the family, or set tokenizer.chat_template and save it with the model"
            )
        try_templates(tokenizer.chat_template, repr(self.name))
        self._tokenizer = tokenizer
        self._kwargs = dict(template_kwargs or {})
        self._in_blocks = self._wants_blocks()
        self.abilities = self._probe()
        if self.abilities.workarounds:
            _log_once(f"the chat template of {self.name!r}: {'; '.join(self.abilities.workarounds)}")

    def render(self, messages: Sequence[Any], *, generate: bool, tools: Sequence[Any] | None = None) -> str:
        """Return a conversation as text.

        Args:
            messages: The conversation.
            generate: Add the generation prompt.
            tools: Schemas to pass to the template.
        """
        try:
            text = self._plain(self.adapted(messages), generate, tools)
        except Exception as error:  # jinja's errors, and anything else that a template raises
            text = self._by_users(messages, generate, tools, error)
        if left_out := _left_out(messages, text):
            _log_once(f"the chat template of {self.name!r} leaves out or changes text, first in: {left_out}")
        return text

    def _by_users(self, messages: Sequence[Any], generate: bool, tools: Sequence[Any] | None, error: Exception) -> str:
        """Render a rejected conversation with results as user messages: some templates reject users next to results."""
        adapted = [
            _as_user(message) if message.get("role") == "tool" else message for message in self.adapted(messages)
        ]
        try:
            return self._plain(_joined(adapted), generate, tools)
        except Exception:
            raise UsageError(
                f"the chat template of {self.name!r} cannot render this conversation: {describe(error)}"
            ) from error

    def adapted(self, messages: Sequence[Any]) -> list[dict[str, Any]]:
        """Return a conversation in the roles that the template renders."""
        adapted = [dict(message) for message in messages]
        if not self.abilities.calls:
            adapted = [_as_text(message) if message.get("tool_calls") else message for message in adapted]
        if not self.abilities.results:
            adapted = [_as_user(message) if message.get("role") == "tool" else message for message in adapted]
        if not self.abilities.system:
            adapted = _without_system(adapted)
        return adapted if self.abilities.repeats else _joined(adapted)

    def _plain(
        self, messages: Sequence[Any], generate: bool, tools: Sequence[Any] | None = None, tools_name: str = ""
    ) -> str:
        written = [{**m, "content": _blocks(m["content"])} for m in messages] if self._in_blocks else list(messages)
        return self._tokenizer.apply_chat_template(
            written,
            tokenize=False,
            add_generation_prompt=generate,
            **{"tools": None, **({} if tools is None else {tools_name or self._tools_name: list(tools)})},
            **self._kwargs,
        )

    def _wants_blocks(self) -> bool:
        """Whether text must be in content blocks, as some templates of vision models require."""
        conversation = [ASKED, {"role": "assistant", "content": SAID}]
        problem: Exception | None = None
        for self._in_blocks in (False, True):
            try:
                if SAID in self._plain(conversation, False):
                    return self._in_blocks
            except Exception as error:  # a template may raise anything
                problem = error
        why = "it leaves out the model's text" if problem is None else describe(problem)
        raise UsageError(f"the chat template of {self.name!r} cannot render a turn of the model: {why}")

    def _probe(self) -> Abilities:
        self._tools_name = next((name for name in TOOLS_NAMES if self._shows_tools_in(name)), "")
        conversation = [ASKED, {"role": "assistant", "content": SAID}]
        result = {"role": "tool", "name": "probe_of_tools", "content": _RENDERING_MARK}
        return Abilities(
            system=self._shows([{"role": "system", "content": _RENDERING_MARK}, ASKED], _RENDERING_MARK),
            results=self._shows([*conversation, result], _RENDERING_MARK)
            and self._shows([*conversation, result, result], _RENDERING_MARK, times=2),
            repeats=self._shows([ASKED, {"role": "user", "content": _RENDERING_MARK}], _RENDERING_MARK),
            calls=self._shows([ASKED, {**conversation[1], "tool_calls": [_CALL]}, result, ASKED], "probe_of_calls"),
            tools=bool(self._tools_name),
        )

    def _shows(self, messages: Sequence[Any], mark: str, *, times: int = 1) -> bool:
        try:
            return self._plain(messages, True).count(mark) >= times
        except Exception:  # a template may raise anything for a role that it rejects
            return False

    def _shows_tools_in(self, name: str) -> bool:
        try:
            return "probe_of_tools" in self._plain([ASKED], True, [_TOOL], name)
        except Exception:  # a template may raise anything for tools that it rejects
            return False


def _left_out(messages: Sequence[Any], rendered: str) -> str:
    """Return the beginning of the first text that is missing from the rendered conversation, or an empty string.

    White space may differ and texts may be JSON-escaped. The model's own turns are not checked, since templates drop
    their thoughts.
    """
    whole = _NO_SPACE.sub("", rendered)
    for message in messages:
        text = text_of(message) if message.get("role") != "assistant" else ""
        forms = (text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])
        if not any(_NO_SPACE.sub("", form) in whole for form in forms):
            return repr(text[:60])
    return ""


def _as_text(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a turn of the model with its calls as text."""
    calls = [strict_json.write({"name": call.name, "arguments": dict(call.arguments)}) for call in calls_of(message)]
    text = "\n".join([*filter(None, [text_of(message)]), *(f"<tool_call>\n{call}\n</tool_call>" for call in calls)])
    return {**{key: value for key, value in message.items() if key != "tool_calls"}, "content": text}


def _as_user(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if isinstance(content, list):
        opening, closing = {"type": "text", "text": "<tool_response>\n"}, {"type": "text", "text": "\n</tool_response>"}
        return {"role": "user", "content": [opening, *content, closing]}
    return {"role": "user", "content": f"<tool_response>\n{text_of(message)}\n</tool_response>"}


def _without_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Prepend the system messages' text to the first user message, or add a user message."""
    words = "\n\n".join(text_of(message) for message in messages if message.get("role") == "system")
    rest = [message for message in messages if message.get("role") != "system"]
    if not words:
        return rest
    message = {"role": "user", "content": words}
    place = next((n for n, message in enumerate(rest) if message.get("role") == "user"), None)
    if place is None:
        return [message, *rest]
    return [*rest[:place], _join(message, rest[place]), *rest[place + 1 :]]


def _joined(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Join user messages in a row."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        if joined and message.get("role") == joined[-1].get("role") == "user":
            joined[-1] = _join(joined[-1], message)
        else:
            joined.append(message)
    return joined


def _join(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    before, after = first["content"], second["content"]
    if isinstance(before, str) and isinstance(after, str):
        return {**first, "content": f"{before}\n\n{after}"}
    return {**first, "content": [*_blocks(before), {"type": "text", "text": "\n\n"}, *_blocks(after)]}


def _blocks(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


@lru_cache(maxsize=64)
def _log_once(line: str) -> None:
    """Log a line once per process: a run makes several renderers."""
    _log.warning("%s", line)


class ChatCodec:
    """Renders openings and observations with a tokenizer's chat template.

    The history keeps every sampled token, including reasoning: templates that drop the thoughts of earlier turns
    (Qwen3, DeepSeek-R1) do so only when they re-render a conversation. Control tokens in the text of users and tools
    are encoded as plain text.

    Args:
        tokenizer: A transformers tokenizer or processor with a chat template, and a token that ends a turn.
        with_tools: Pass the tool schemas to the template; for dialects that leave the tool instructions to it.
        template_kwargs: Arguments of the template, e.g. `{"enable_thinking": False}`.
        end_ids: Tokens that end a turn, in addition to the tokenizer's and the template's.
        sees: Whether the model accepts pictures. Otherwise a line of text stands for each picture.

    Raises:
        UsageError: The chat template is missing or unusable.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        with_tools: bool = False,
        template_kwargs: Mapping[str, Any] | None = None,
        end_ids: Sequence[int] = (),
        sees: bool = False,
    ):
        self._renderer = Renderer(tokenizer, template_kwargs=template_kwargs)
        self.tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
        self.sees = sees
        self._control = ControlTokens(self.tokenizer, (sees and getattr(tokenizer, "image_token", None)) or "")
        self._with_tools = with_tools and self._renderer.abilities.tools
        self._tools: list[Mapping[str, Any]] | None = None
        self._special = _special(self.tokenizer)
        own: int | None = self.tokenizer.eos_token_id
        self.end_ids = frozenset({own, *end_ids} - {None})
        """Tokens that end a turn."""
        self.before_end, written = self._learn_end()
        """Text that the template writes between the turn's text and its end token."""
        end = next((token for token in (written, own, *sorted(self.end_ids)) if token is not None), None)
        if end is None:
            raise UsageError(
                f"neither the tokenizer {self._renderer.name!r} nor its chat template has a token that ends a turn, so "
                "the model would never stop; set tokenizer.eos_token and save it with the model"
            )
        self.end_id: int = end
        """The end token that the template writes, or else the tokenizer's."""

    def open(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the ids of the opening messages, up to the model's first turn."""
        self._tools = list(tools) if self._with_tools else None
        text = self._renderer.render(self._readable(messages), generate=True, tools=self._tools)
        return self._encode(text)

    def extend(self, observation: Sequence[Message], last_id: int) -> list[int]:
        """Return the ids between a model turn whose last token was `last_id` and its next turn."""
        # Templates that look up the call of a result would not find it in the placeholder conversation.
        anonymous = [{k: v for k, v in message.items() if k != "tool_call_id"} for message in observation]
        closing, glue = self._after_turn(self._readable(anonymous))
        ids = self._encode(glue)
        return ids if last_id in self.end_ids else [*self._encode(closing), *ids]

    def say(self, text: str) -> list[int]:
        """Return the ids of a model turn, with the token that ends it: the inverse of `decode`."""
        return [*self._encode(text + self.before_end), self.end_id]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of sampled ids without the token that ends a turn."""
        content = ids[:-1] if ids and ids[-1] in self.end_ids else ids
        text = self.tokenizer.decode(content, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text.removesuffix(self.before_end) if self.before_end else text

    def _readable(self, messages: Sequence[Any]) -> list[dict[str, Any]]:
        """Return messages with pictures as templates expect them, or as text for a text-only model."""
        readable = messages if self.sees else map(without_pictures, messages)
        return [
            {**message, "content": as_template_content(self._control.only_spelled(message))} for message in readable
        ]

    def _learn_end(self) -> tuple[str, int | None]:
        """Add the template's end token to `end_ids`; return the text that precedes it and the token."""
        closing, _ = self._after_turn([ASKED])
        alone = self._after_stand_in([], generate=False)
        written = closing if alone.startswith(closing) else alone
        if (end := self._last_special(written)) is None:
            return "", None
        token: int = self.tokenizer.convert_tokens_to_ids(end[1])
        self.end_ids |= {token}
        return written[: end.start(1)].strip(), token

    def _after_turn(self, observation: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
        """Return the text that ends a model turn, and the text from there to the next model turn."""
        # The text before the placeholder may differ, since some templates drop earlier thoughts. That does not matter:
        # the history keeps the sampled tokens.
        alone = self._after_stand_in([], generate=False)
        followed = self._after_stand_in(observation, generate=True)
        same = self._last_special(alone[: common(alone, followed)])
        end = same.end() if same is not None else self._end_of_earlier(alone, followed)
        if not end:
            raise UsageError(
                f"the chat template of {self._renderer.name!r} drops or changes earlier turns, or does not end them "
                "with a token; a conversation cannot be extended with it. Use another model or tokenizer"
            )
        return followed[:end], followed[end:]

    def _end_of_earlier(self, alone: str, followed: str) -> int:
        """Return where an earlier turn ends if it ends differently from the last one; 0 if it has no end token.

        gpt-oss ends its last turn with `<|return|>` and earlier ones with `<|end|>`; in GLM-4, the next role's token
        ends a turn.
        """
        first = self._special.match(followed)
        if first is None:
            return 0
        is_role = self.tokenizer.convert_tokens_to_ids(first[1]) in self.end_ids
        return first.end() if is_role or self._special.match(alone) else 0

    def _after_stand_in(self, observation: Sequence[Mapping[str, Any]], *, generate: bool) -> str:
        conversation = [ASKED, {"role": "assistant", "content": SAID}, *observation]
        return self._renderer.render(conversation, generate=generate, tools=self._tools).partition(SAID)[2]

    def _last_special(self, text: str) -> re.Match[str] | None:
        return next(reversed([*self._special.finditer(text)]), None)

    def _encode(self, text: str) -> list[int]:
        return self._control.encode(text)


def _special(tokenizer: Any) -> re.Pattern[str]:
    """Return a pattern for special tokens, with any white space before them."""
    added = [str(token.content) for token in tokenizer.added_tokens_decoder.values()]
    names = sorted({*added, *tokenizer.all_special_tokens}, key=len, reverse=True)
    return re.compile(rf"\s*({'|'.join(map(re.escape, names)) or '(?!)'})")
