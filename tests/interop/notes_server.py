"""A small MCP server, written with the official SDK: notes, and tools that fail in every way. Run as a program.

Over the standard streams, its first notes come from the variable NOTES; over HTTP (with a port as argument), each
session has notes of its own, which begin with those in the query of its URL.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Annotated, Any
from weakref import WeakKeyDictionary

from mcp.server.fastmcp import Context, FastMCP, Image  # pyright: ignore[reportMissingImports]
from mcp.server.fastmcp.exceptions import ToolError  # pyright: ignore[reportMissingImports]
from pydantic import Field

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63f8cfc0f01f0005000201"
    "5e6f4a0b0000000049454e44ae426082"
)

Title = Annotated[str, Field(description="The title of the note.")]

server = FastMCP("notes", log_level="ERROR", json_response=True)
_notes: WeakKeyDictionary[Any, dict[str, str]] = WeakKeyDictionary()


def notes_of(context: Context[Any, Any, Any]) -> dict[str, str]:
    inner = context.request_context
    if inner.session not in _notes:
        text = os.environ.get("NOTES") if inner.request is None else inner.request.query_params.get("notes")
        _notes[inner.session] = json.loads(text or "{}")
    return _notes[inner.session]


@server.tool()
def titles(context: Context[Any, Any, Any]) -> str:
    """List the titles of all notes."""
    return ", ".join(sorted(notes_of(context))) or "There are no notes."


@server.tool()
def read(title: Title, context: Context[Any, Any, Any]) -> str:
    """Read a note."""
    notes = notes_of(context)
    if title not in notes:
        raise ToolError(f"there is no note {title!r}")
    return notes[title]


@server.tool()
def write(title: Title, text: Annotated[str, Field(description="Its text.")], context: Context[Any, Any, Any]) -> str:
    """Write a note, over what was there."""
    notes_of(context)[title] = text
    return "Written."


@server.tool(structured_output=False)
def picture() -> list[Any]:
    """Look at a picture."""
    return ["A dot:", Image(data=PNG, format="png")]


@server.tool()
def crash() -> str:
    """End the server's process."""
    sys.stderr.write("out of paper\n")
    sys.stderr.flush()
    os._exit(3)


@server.tool()
def wait(seconds: Annotated[float, Field(description="How long.")]) -> str:
    """Wait."""
    time.sleep(seconds)
    return "Waited."


if __name__ == "__main__":
    ports = [int(word) for word in sys.argv[1:] if word.isdigit()]
    server.settings.port = sum(ports)
    server.run("streamable-http" if ports else "stdio")
