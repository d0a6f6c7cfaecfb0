"""Writes replies as streams of the Responses API: typed events, one item after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentgym.interop.gateway.chat_answers import new_in
from agentgym.interop.gateway.items import reasoned_so_far
from agentgym.interop.gateway.response_answers import Answering, message_item, reasoning_item
from agentgym.interop.gateway.rows import Reply

_Item = dict[str, Any]


class ResponseStream:
    """Writes a reply while it is said.

    Args:
        answering: Writes the whole answer.
        is_live: Whether text is sent while it is said. Its log-probabilities are known only when it is complete.
        on_end: Called with the whole answer before it is sent, and with the reply.
    """

    def __init__(self, answering: Answering, is_live: bool, on_end: Callable[[_Item, Reply], None]):
        self._answering, self._is_live, self._on_end = answering, is_live, on_end
        self._number = self._items = 0
        self._said: str | None = None
        """The text of the message that has been sent, once it has begun."""

    def more(self, text: str) -> str:
        """Return the events for what is new in a text; there may be none."""
        return self._written(self._more(*reasoned_so_far(text))) if self._is_live else ""

    def end(self, reply: Reply) -> str:
        """Return the other events of the whole answer."""
        answer = self._answering.whole(reply)
        self._on_end(answer, reply)
        return self._written(self._rest(answer))

    def failed(self, problem: Mapping[str, Any]) -> str:
        """Return the event that says why there is no more."""
        told = {name: problem[name] for name in ("code", "message", "param")}
        return self._written([{"type": "error", **told, "error": dict(problem)}])

    def _written(self, events: Iterator[_Item] | list[_Item]) -> str:
        texts = []
        for event in events:
            numbered = json.dumps({**event, "sequence_number": self._number})
            texts.append(f"event: {event['type']}\ndata: {numbered}\n\n")
            self._number += 1
        return "".join(texts)

    def _begin(self) -> Iterator[_Item]:
        if not self._number:
            for kind in ("created", "in_progress"):
                yield {"type": f"response.{kind}", "response": self._answering.begun()}

    def _more(self, thought: str, text: str) -> Iterator[_Item]:
        named = self._answering.named
        if thought and not self._items:
            yield from self._begin()
            yield from self._item(reasoning_item(named, thought))
        if text and text != self._said:
            yield from self._begin()
            yield from self._text(message_item(named, text, "in_progress"))

    def _rest(self, answer: _Item) -> Iterator[_Item]:
        yield from self._begin()
        for item in answer["output"][self._items :]:
            yield from self._item(item)
        yield {"type": f"response.{answer['status']}", "response": answer}

    def _item(self, item: _Item) -> Iterator[_Item]:
        """Yield the events of a whole item, or of what has not been sent of it."""
        if item["type"] == "message":
            yield from self._text(item)
            pieces = _end_of_message(item)
        else:
            yield {"type": "response.output_item.added", "output_index": self._items, "item": _empty(item)}
            pieces = _pieces_of_call(item) if item["type"] == "function_call" else _pieces_of_reasoning(item)
        for event in pieces:
            yield self._placed(event, item)
        yield {"type": "response.output_item.done", "output_index": self._items, "item": item}
        self._items += 1

    def _text(self, item: _Item) -> Iterator[_Item]:
        """Yield what is new in a message, which may begin with it."""
        [part] = item["content"]
        if self._said is None:
            yield {"type": "response.output_item.added", "output_index": self._items, "item": _empty(item)}
            empty = {**part, "text": "", "logprobs": []}
            yield self._placed({"type": "response.content_part.added", "content_index": 0, "part": empty}, item)
        if (new := new_in(part["text"], self._said or "")) or self._said is None:
            delta = {"content_index": 0, "delta": new, "logprobs": part.get("logprobs", [])}
            yield self._placed({"type": "response.output_text.delta", **delta}, item)
        self._said = part["text"]

    def _placed(self, event: _Item, item: _Item) -> _Item:
        return {**event, "output_index": self._items, "item_id": item["id"]}


def _empty(item: _Item) -> _Item:
    empty: _Item = {"arguments": ""} if item["type"] == "function_call" else {"content": []}
    return {**item, **empty, "status": "in_progress"}


def _end_of_message(item: _Item) -> Iterator[_Item]:
    [part] = item["content"]
    said = {"text": part["text"], "logprobs": part.get("logprobs", [])}
    yield {"type": "response.output_text.done", "content_index": 0, **said}
    yield {"type": "response.content_part.done", "content_index": 0, "part": part}


def _pieces_of_reasoning(item: _Item) -> Iterator[_Item]:
    [part] = item["content"]
    place = {"content_index": 0}
    yield {"type": "response.content_part.added", **place, "part": {**part, "text": ""}}
    yield {"type": "response.reasoning_text.delta", **place, "delta": part["text"]}
    yield {"type": "response.reasoning_text.done", **place, "text": part["text"]}
    yield {"type": "response.content_part.done", **place, "part": part}


def _pieces_of_call(item: _Item) -> Iterator[_Item]:
    arguments = item["arguments"]
    yield {"type": "response.function_call_arguments.delta", "delta": arguments}
    yield {"type": "response.function_call_arguments.done", "name": item["name"], "arguments": arguments}
