"""What MCP servers return, as results of tools."""

from __future__ import annotations

import base64
import json

from mcp import types  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

from agentgym.errors import ToolError
from agentgym.messages import Pictured

_PNG = "image/png"


def as_result(result: types.CallToolResult) -> str | Pictured:
    """Return the text and the PNG files of a result. Other contents are described in words.

    Raises:
        ToolError: The server says that the call was a mistake.
    """
    text = "\n".join(filter(None, map(_text_of, result.content)))
    if not text and result.structuredContent is not None:
        text = json.dumps(result.structuredContent, ensure_ascii=False)
    if result.isError:
        raise ToolError(text or "The tool failed without saying why.")
    shown = [block for block in result.content if isinstance(block, types.ImageContent) and block.mimeType == _PNG]
    pictures = tuple(base64.b64decode(block.data) for block in shown)
    return Pictured(text, pictures) if pictures else text


def _text_of(block: types.ContentBlock) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ResourceLink):
        return f"{block.name}: {block.uri}"
    if isinstance(block, types.EmbeddedResource):
        inner = block.resource
        return inner.text if isinstance(inner, types.TextResourceContents) else f"({inner.uri}: no text)"
    return "" if block.mimeType == _PNG else f"({block.mimeType}: cannot be shown)"
