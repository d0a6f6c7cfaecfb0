"""Printed text as a policy reads it: nothing that varies between runs."""

from __future__ import annotations

import re

from agentgym.tools.text_files import cut

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?")
_DURATION = re.compile(r" in \d+\.\d+s(?: \(\d+:\d\d:\d\d\))?")
_ADDRESS = re.compile(r"(?<= at 0x)[0-9a-f]{6,}")
_TEMPORARY = re.compile(r"/pytest-of-[^/\s]+/pytest-\d+")


def steady(text: str) -> str:
    """Return printed text without control sequences and without parts that vary between runs."""
    text = _ESCAPES.sub("", text).replace("\0", "\\0")
    text = _TEMPORARY.sub("/pytest", _ADDRESS.sub("…", _DURATION.sub("", text)))
    return "\n".join(cut(line) for line in text.replace("\r\n", "\n").split("\n"))
