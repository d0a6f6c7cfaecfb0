"""Renders conversations with a tokenizer's chat template, and works around what the template rejects or drops.

Some templates silently drop tool results, reject system messages, or reject two user messages in a row. Each template
is probed once with a marker for each role, which must appear in the rendered text.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from agentgym.dialects.template import TOOLS_NAMES
from agentgym.errors import UsageError
from agentgym.foreign.errors import describe
from agentgym.messages import ToolCall, calls_of, text_of
from agentgym.records import strict_json

ASKED = {"role": "user", "content": "?"}
SAID = "\u2042"
"""Placeholder for the text of the model: a character that no template writes itself."""
_MARK = "\u2051"
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
        UsageError: The chat template is missing or cannot render a turn of the model.
    """

    def __init__(self, tokenizer: Any, *, template_kwargs: Mapping[str, Any] | None = None):
        self.name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        if not getattr(tokenizer, "chat_template", None):
            raise UsageError(
                f"the tokenizer {self.name!r} has no chat template, so its model is not a chat model; use the "
                "instruction model of the family, or set tokenizer.chat_template and save it with the model"
            )
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
        result = {"role": "tool", "name": "probe_of_tools", "content": _MARK}
        return Abilities(
            system=self._shows([{"role": "system", "content": _MARK}, ASKED], _MARK),
            results=self._shows([*conversation, result], _MARK)
            and self._shows([*conversation, result, result], _MARK, times=2),
            repeats=self._shows([ASKED, {"role": "user", "content": _MARK}], _MARK),
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
