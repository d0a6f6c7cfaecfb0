"""Chat messages as MCP content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mcp import types  # pyright: ignore[reportMissingImports]

from agentgym.core.messages import Message, text_of


def blocks_of(message: Mapping[str, Any]) -> list[types.ContentBlock]:
    """Return a message's text and pictures (PNG)."""
    content = message.get("content") or ""
    if not isinstance(content, list):
        return [_text(text_of(message))]
    return [_block(block) for block in content if block.get("type") == "text" or block.get("base64")]


def result_blocks(messages: Iterable[Mapping[str, Any]]) -> list[types.ContentBlock]:
    """Return the content that a policy reads after a call: the result, and any other messages."""
    return [block for message in messages for block in blocks_of(message)]


def prompt_messages(opening: Sequence[Message]) -> list[types.PromptMessage]:
    """Return opening messages as an MCP prompt, which has only user and assistant roles.

    Each content block becomes its own message.
    """
    return [
        types.PromptMessage(role="assistant" if message.get("role") == "assistant" else "user", content=block)
        for message in opening
        for block in blocks_of(message)
    ]


def _block(block: Mapping[str, Any]) -> types.ContentBlock:
    if block.get("type") == "text":
        return _text(str(block.get("text") or ""))
    return types.ImageContent(type="image", data=block["base64"], mimeType="image/png")


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)
