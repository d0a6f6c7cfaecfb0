"""Reads the items of the Responses API as messages of a chat endpoint, and splits a message into items."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentgym.dialects.text import END_THINK, THINK
from agentgym.interop.gateway.errors import Refused

_REASONED = re.compile(rf"\s*{THINK}(.*?){END_THINK}(.*)", re.DOTALL)
_KINDS = "message, function_call, function_call_output, reasoning, item_reference"
_TEXTS = ("input_text", "output_text", "text", "reasoning_text")


def messages_of(given: Any, known: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of an input. What the model said in a turn, reasoning, text and calls, is one message.

    Args:
        given: Text, or a list of items.
        known: Items that the input may refer to by their ids.

    Raises:
        Refused: An item is of another kind, or cannot be read.
    """
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    if not isinstance(given, list):
        raise Refused("'input' must be text or a list of items", param="input")
    joined = _Joined(known)
    for item in given:
        joined.add(item)
    return joined.messages


def reasoned(text: str) -> tuple[str, str]:
    """Return the reasoning at the beginning of a text, without its marks, and the rest; empty if there is none."""
    found = _REASONED.fullmatch(text)
    return (found[1].strip(), found[2].strip()) if found else ("", text)


def reasoned_so_far(text: str) -> tuple[str, str]:
    """Return what `reasoned` returns of any text that begins with this one, as far as it is certain."""
    if (found := _REASONED.fullmatch(text)) is not None:
        return found[1].strip(), found[2].strip()
    begun = text.lstrip()[: len(THINK)]
    return "", "" if THINK.startswith(begun) else text


class _Joined:
    """Messages made of items.

    Args:
        known: Items by their ids.
    """

    def __init__(self, known: Mapping[str, Mapping[str, Any]]) -> None:
        self._known = known
        self.messages: list[dict[str, Any]] = []
        self._turn: dict[str, Any] | None = None
        """The model's message to which further calls belong."""
        self._thought = ""
        """Reasoning that the model's next message begins with."""

    def add(self, item: Any) -> None:
        """Add an item."""
        if not isinstance(item, Mapping):
            raise Refused("an item of 'input' must be an object", param="input")
        kind = item.get("type") or "message"
        if kind == "item_reference":
            self.add(self._referred(item.get("id")))
        elif kind == "message":
            self._message(item)
        elif kind == "function_call":
            self._call(item)
        elif kind == "function_call_output":
            self._hear({"role": "tool", "tool_call_id": item.get("call_id"), "content": _content(item.get("output"))})
        elif kind == "reasoning":
            self._think(item)
        else:
            raise Refused(f"an item of 'input' is {kind!r:.100}; there are: {_KINDS}", param="input")

    def _message(self, item: Mapping[str, Any]) -> None:
        content = _content(item.get("content"))
        if item.get("role") == "assistant":
            self._say(content)
        else:
            self._hear({"role": item.get("role"), "content": content})

    def _call(self, item: Mapping[str, Any]) -> None:
        turn = self._turn if self._turn is not None else self._say("")
        function = {"name": item.get("name"), "arguments": item.get("arguments")}
        turn.setdefault("tool_calls", []).append({"id": item.get("call_id"), "type": "function", "function": function})

    def _referred(self, name: Any) -> Mapping[str, Any]:
        if not isinstance(name, str) or name not in self._known:
            raise Refused(f"there is no item {name!r:.100} in this session, or it was not stored", param="input")
        return self._known[name]

    def _think(self, item: Mapping[str, Any]) -> None:
        """Begin a turn with its reasoning. Programs may keep no more of it than its id.

        Reasoning without a text, such as that of another model, is left out.
        """
        own = self._known.get(str(item.get("id")), {})
        text = _text(own.get("content") or item.get("content") or ())
        self._turn, self._thought = None, f"{THINK}{text}{END_THINK}" if text else ""

    def _say(self, content: Any) -> dict[str, Any]:
        self._turn = {"role": "assistant", "content": _after(self._thought, content)}
        self._thought = ""
        self.messages.append(self._turn)
        return self._turn

    def _hear(self, message: dict[str, Any]) -> None:
        self._turn, self._thought = None, ""
        self.messages.append(message)


def _after(thought: str, content: Any) -> Any:
    if not thought:
        return content
    if isinstance(content, str):
        return thought + content
    return [{"type": "text", "text": thought}, *content]


def _content(given: Any) -> Any:
    """Return the content of an item as that of a chat message."""
    if given is None or isinstance(given, str):
        return given or ""
    if not isinstance(given, list):
        raise Refused("the content of an item must be text or a list of parts", param="input")
    return [*map(_part, given)]


def _part(part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, Mapping) else part
    if kind in _TEXTS:
        return {"type": "text", "text": part.get("text")}
    if kind == "refusal":
        return {"type": "refusal", "refusal": part.get("refusal")}
    if kind == "input_image":
        return {"type": "image_url", "image_url": part.get("image_url")}
    raise Refused(f"a part of an item is {kind!r:.100}; there are text and input_image", param="input")


def _text(parts: Any) -> str:
    if not isinstance(parts, list | tuple):
        raise Refused("the content of reasoning must be a list of parts", param="input")
    return "".join(str(_part(part).get("text") or "") for part in parts)
