"""Converts results of MCP servers to results of tools."""

from __future__ import annotations

import base64
import json

from mcp import types  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

from agentgym.errors import ToolError
from agentgym.messages import Pictured

_PNG = "image/png"
_PNG_BEGINS = b"\x89PNG\r\n\x1a\n"


def as_result(result: types.CallToolResult) -> str | Pictured:
    """Return the text and the PNG files of a result. Text describes other content.

    Raises:
        ToolError: The server reports a mistake in the call.
    """
    text = "\n".join(filter(None, map(_text_of, result.content)))
    if not text and result.structuredContent is not None:
        text = json.dumps(result.structuredContent, ensure_ascii=False)
    if result.isError:
        raise ToolError(text or "The tool failed without saying why.")
    pictures = tuple(filter(None, map(_picture_of, result.content)))
    return Pictured(text, pictures) if pictures else text


def _picture_of(block: types.ContentBlock) -> bytes | None:
    """Return the PNG file in a content block; `None` if it is not really a PNG file, whatever its MIME type."""
    if not isinstance(block, types.ImageContent) or block.mimeType != _PNG:
        return None
    file = base64.b64decode(block.data)
    return file if file.startswith(_PNG_BEGINS) else None


def _text_of(block: types.ContentBlock) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ResourceLink):
        return f"{block.name}: {block.uri}"
    if isinstance(block, types.EmbeddedResource):
        inner = block.resource
        return inner.text if isinstance(inner, types.TextResourceContents) else f"({inner.uri}: no text)"
    return "" if _picture_of(block) else f"({block.mimeType}: cannot be shown)"
