"""Renders conversations with a tokenizer's chat template, and works around what the template refuses or leaves out.

Some templates drop the results of tools without a word, refuse system messages, or refuse two user messages in a row.
Each template is tried once with a mark for each role: what was said must be in what it renders.
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
"""Stands for the text of the model: a character that no template writes by itself."""
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
    """What a chat template renders. What it does not is written in another way."""

    system: bool
    """System messages; else their text is put before the first user message."""
    results: bool
    """Tool messages; else they are user messages with `<tool_response>` tags."""
    repeats: bool
    """Two user messages in a row; else they are joined."""
    calls: bool
    """The calls of earlier turns, with which an opening may begin; else they are text in `<tool_call>` tags."""
    tools: bool
    """The schemas of tools; else the dialect explains them."""

    @property
    def workarounds(self) -> list[str]:
        """What is written in another way, for a log line."""
        said = {
            "tool results are sent as user messages": self.results,
            "the system message is put into the first user message": self.system,
            "user messages in a row are joined": self.repeats,
        }
        return [what for what, is_native in said.items() if not is_native]


class Renderer:
    """Renders conversations as text.

    Args:
        tokenizer: A transformers tokenizer or processor.
        template_kwargs: Arguments of the template.

    Raises:
        UsageError: There is no chat template, or it cannot render what it must.
    """

    def __init__(self, tokenizer: Any, *, template_kwargs: Mapping[str, Any] | None = None):
        self.name = str(getattr(tokenizer, "name_or_path", "") or type(tokenizer).__name__)
        if not getattr(tokenizer, "chat_template", None):
            raise UsageError(
                f"the tokenizer {self.name!r} has no chat template, so its model has not learned to talk; use the "
                "instruction model of the family, or set tokenizer.chat_template and save it beside the model"
            )
        self._tokenizer = tokenizer
        self._kwargs = dict(template_kwargs or {})
        self._in_blocks = self._wants_blocks()
        self.abilities = self._probe()
        if self.abilities.workarounds:
            _tell(f"the chat template of {self.name!r}: {'; '.join(self.abilities.workarounds)}")

    def render(self, messages: Sequence[Any], *, generate: bool, tools: Sequence[Any] | None = None) -> str:
        """Return a conversation as text.

        Args:
            messages: The conversation.
            generate: End it with what stands before the model's next turn.
            tools: Schemas to pass to the template.
        """
        try:
            shown = self._plain(self.adapted(messages), generate, tools)
        except Exception as error:  # jinja's errors, and anything else that a template raises
            shown = self._by_users(messages, generate, tools, error)
        if left_out := _left_out(messages, shown):
            _tell(f"the chat template of {self.name!r} leaves out or changes what was said, first in: {left_out}")
        return shown

    def _by_users(self, messages: Sequence[Any], generate: bool, tools: Sequence[Any] | None, error: Exception) -> str:
        """Render what a template refuses with results as user messages: some refuse a user's words beside results."""
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
        """Whether text must stand in content blocks, as some templates of vision models demand."""
        said = [ASKED, {"role": "assistant", "content": SAID}]
        problem: Exception | None = None
        for self._in_blocks in (False, True):
            try:
                if SAID in self._plain(said, False):
                    return self._in_blocks
            except Exception as error:  # a template may raise anything
                problem = error
        why = "it leaves out what the model has said" if problem is None else describe(problem)
        raise UsageError(f"the chat template of {self.name!r} cannot render a turn of the model: {why}")

    def _probe(self) -> Abilities:
        self._tools_name = next((name for name in TOOLS_NAMES if self._shows_tools_in(name)), "")
        said = [ASKED, {"role": "assistant", "content": SAID}]
        result = {"role": "tool", "name": "probe_of_tools", "content": _MARK}
        return Abilities(
            system=self._shows([{"role": "system", "content": _MARK}, ASKED], _MARK),
            results=self._shows([*said, result], _MARK) and self._shows([*said, result, result], _MARK, times=2),
            repeats=self._shows([ASKED, {"role": "user", "content": _MARK}], _MARK),
            calls=self._shows([ASKED, {**said[1], "tool_calls": [_CALL]}, result, ASKED], "probe_of_calls"),
            tools=bool(self._tools_name),
        )

    def _shows(self, messages: Sequence[Any], mark: str, *, times: int = 1) -> bool:
        try:
            return self._plain(messages, True).count(mark) >= times
        except Exception:  # a template may raise anything for a role that it refuses
            return False

    def _shows_tools_in(self, name: str) -> bool:
        try:
            return "probe_of_tools" in self._plain([ASKED], True, [_TOOL], name)
        except Exception:  # a template may raise anything for tools that it refuses
            return False


def _left_out(messages: Sequence[Any], shown: str) -> str:
    """Return the beginning of the first text that is not in what was rendered; empty if all are.

    White space may differ, texts may be written as JSON, and of the model's own turns templates drop the thoughts.
    """
    whole = _NO_SPACE.sub("", shown)
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
    """Put the system messages' texts before the first user message, which is made if there is none."""
    words = "\n\n".join(text_of(message) for message in messages if message.get("role") == "system")
    rest = [message for message in messages if message.get("role") != "system"]
    if not words:
        return rest
    told = {"role": "user", "content": words}
    place = next((n for n, message in enumerate(rest) if message.get("role") == "user"), None)
    if place is None:
        return [told, *rest]
    return [*rest[:place], _join(told, rest[place]), *rest[place + 1 :]]


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
def _tell(line: str) -> None:
    """Say something once a process: a run makes several renderers."""
    _log.warning("%s", line)
