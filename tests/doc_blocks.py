"""The fenced blocks of a Markdown page, and the commands in its shell blocks."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
_BLOCK = re.compile(r"^(?:<!-- not run: (?P<why>.+?) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A block of code on a page."""

    language: str
    text: str
    why_not: str | None
    """Why the block is not run, from a comment on the line before it."""

    @property
    def file(self) -> str | None:
        """The file name of a Python block, from its first line (`# receipt.py`)."""
        match = re.match(r"# (\w+\.py)\n", self.text)
        return match and match[1]

    @property
    def commands(self) -> list[list[str]]:
        """Every line as words; a backslash continues a line."""
        lines = re.sub(r"\\\n", " ", self.text).splitlines()
        return [words for line in lines if (words := shlex.split(line, comments=True))]


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of Python and of shell, in order."""
    blocks = [Block(m["language"], m["text"], m["why"]) for m in _BLOCK.finditer(page.read_text(encoding="utf-8"))]
    return [block for block in blocks if block.language in ("python", "sh")]


def pages() -> list[Path]:
    """Return the hand-written pages, without the generated cards."""
    return [page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "envs"]
