"""Messages in the form of chat endpoints, which other programs keep and send."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

from agentgym.messages import Message, shown_pictures, text_of

Wire = dict[str, Any]
"""A message as chat endpoints take it."""


def sendable(messages: Iterable[Message]) -> list[Wire]:
    """Return observations as chat endpoints take them.

    Pictures become data URLs. Those of tools follow the results in a user message, since tool messages hold only text.
    """
    sent: list[Wire] = []
    shown: list[Wire] = []
    for message in messages:
        pictures = [picture_block(picture) for picture in shown_pictures([message])]
        if message.get("role") == "tool":
            text = text_of(message)
            sent.append({"role": "tool", "tool_call_id": message.get("tool_call_id", ""), "content": text})
            shown += pictures
        else:
            sent.append({**message, "content": _content(text_of(message), pictures)})
    return [*sent, {"role": "user", "content": shown}] if shown else sent


def picture_block(picture: bytes) -> Wire:
    """Return a PNG file as a block of a user message."""
    return {"type": "image_url", "image_url": {"url": picture_url(picture)}}


def picture_url(picture: bytes) -> str:
    """Return a PNG file as a data URL."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def _content(text: str, pictures: Sequence[Wire]) -> str | list[Wire]:
    return [{"type": "text", "text": text}, *pictures] if pictures else text
