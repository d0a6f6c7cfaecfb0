"""Converts HTML to readable text, in time linear in its length for any page.

The standard library's parser takes quadratic time on hostile pages and raises on some, and the well-known extractors
are heavier than all of this package; models only need headings, lists, tables and paragraphs.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

_RAW = {"script", "style", "noscript", "template", "iframe", "svg", "math", "canvas", "select", "textarea", "title"}
"""Elements skipped up to their end tag; `title` keeps its text."""
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_ASIDE = {"nav", "footer", "aside", "dialog", "menu"}
"""Elements that are rarely part of a page's content."""
_BLOCK = {
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "html",
    "li", "main", "nav", "ol", "p", "pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul",
}  # fmt: skip
_PARAGRAPH = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "table", "ul", "ol", "pre", "dl"}
_OFTEN_UNCLOSED = {"p", "li", "td", "th", "tr", "dt", "dd"}
_MAIN = {"main", "article"}
_MAIN_SHARE = 0.3
"""The fraction of a page's text that `main` or `article` must contain to replace the whole page."""
_QUOTED_BRACKETS = 4
_TAG_NAME = re.compile(r"/?([a-zA-Z][a-zA-Z0-9:-]{0,40})")
_HIDDEN = re.compile(
    r"""\shidden(?=[\s=/]|$)|aria-hidden\s*=\s*["']?true|display\s*:\s*none|visibility\s*:\s*hidden""", re.I
)
_LONG_NUMBER = re.compile(r"&#[xX]?[0-9a-fA-F]{8,};?")
_SPACE = re.compile(r"[^\S\n]+")


@dataclass(frozen=True)
class Readable:
    """A page's title and text."""

    title: str
    text: str


@dataclass(frozen=True)
class _Token:
    """A piece of text, or a tag with its attributes."""

    tag: str = ""
    closing: bool = False
    content: str = ""


def readable(page: str) -> Readable:
    """Return the title and text of an HTML page. Nothing in it is executed or loaded; hidden parts are left out."""
    reading = _Reading()
    for token in _tokens(page):
        reading.take(token)
    whole, main = _tidy(reading.whole), _tidy(reading.main)
    text = main if len(main) >= _MAIN_SHARE * len(whole) else whole
    return Readable(" ".join(reading.title.split()), text)


class _Reading:
    """The state of reading a page."""

    def __init__(self) -> None:
        self.title = ""
        self.whole: list[str] = []
        self.main: list[str] = []
        self._hidden: list[str] = []
        self._main_depth = 0
        self._pre_depth = 0
        self._cells = 0
        self._breaks = 2

    def take(self, token: _Token) -> None:
        if not token.tag:
            self._text(token.content)
        elif token.tag == "title":
            self.title = self.title or _decoded(token.content)
        elif self._hidden:
            self._inside_hidden(token)
        elif token.closing:
            self._end(token.tag)
        else:
            self._start(token.tag, token.content)

    def _inside_hidden(self, token: _Token) -> None:
        """Count only tags with the hidden element's name, so that unclosed tags do not matter."""
        if token.tag == self._hidden[0]:
            if token.closing:
                self._hidden.pop()
            elif token.tag in _OFTEN_UNCLOSED:
                self._hidden = []
                self._start(token.tag, token.content)
            else:
                self._hidden.append(token.tag)

    def _start(self, tag: str, attributes: str) -> None:
        if tag not in _VOID and (tag in _ASIDE or _HIDDEN.search(attributes)) and tag not in ("html", "body"):
            self._hidden = [tag]
            return
        self._main_depth += tag in _MAIN
        self._pre_depth += tag == "pre"
        if tag == "br":
            self._add("\n")
        elif tag == "li":
            self._break(tag)
            self._add("- ")
            self._breaks = 2
        elif tag in ("td", "th"):
            self._cells += 1
            self._add(" | " if self._cells > 1 else "")
        elif tag in _BLOCK:
            self._cells = 0
            self._break(tag)

    def _end(self, tag: str) -> None:
        self._main_depth -= tag in _MAIN and self._main_depth > 0
        self._pre_depth -= tag == "pre" and self._pre_depth > 0
        if tag in _BLOCK:
            self._break(tag)

    def _text(self, content: str) -> None:
        if self._hidden:
            return
        text = _decoded(content)
        text = text if self._pre_depth else re.sub(r"\s+", " ", text)
        if text.strip() or not self._breaks:
            self._breaks = 0
            self._add(text)

    def _break(self, tag: str) -> None:
        """End the line, and add an empty one for a paragraph; consecutive breaks are merged."""
        breaks = 2 if tag in _PARAGRAPH else 1
        self._add("\n" * (breaks - self._breaks))
        self._breaks = max(breaks, self._breaks)

    def _add(self, text: str) -> None:
        self.whole.append(text)
        if self._main_depth:
            self.main.append(text)


def _tokens(page: str) -> Iterator[_Token]:
    at = 0
    while at < len(page):
        opening = page.find("<", at)
        if opening < 0:
            yield _Token(content=page[at:])
            return
        if opening > at:
            yield _Token(content=page[at:opening])
        name = _TAG_NAME.match(page, opening + 1)
        if name is None:
            at = _after_other(page, opening)
            if at == opening + 1:
                yield _Token(content="<")
            continue
        end = _tag_end(page, name.end())
        tag, closing = name[1].lower(), page[opening + 1] == "/"
        at = end + 1
        if tag in ("svg", "math") and page[end - 1] == "/":
            continue
        if tag in _RAW:
            raw_end, after = (at, at) if closing else _raw_end(page, tag, at)
            if tag == "title" and not closing:
                yield _Token(tag, content=page[at:raw_end])
            at = after
        else:
            yield _Token(tag, closing, page[name.end() : end])


def _after_other(page: str, opening: int) -> int:
    """Return the position after a comment, a declaration or a bare bracket."""
    if page.startswith("<!--", opening):
        end = page.find("-->", opening + 2)
        return len(page) if end < 0 else end + 3
    if page[opening + 1 : opening + 2] in ("!", "?", "/"):
        end = page.find(">", opening)
        return len(page) if end < 0 else end + 1
    return opening + 1


def _tag_end(page: str, at: int) -> int:
    """Return the end of a tag. A bracket inside quotes does not end it, unless there are very many of them."""
    first = end = page.find(">", at)
    if first < 0:
        return len(page)
    for _ in range(_QUOTED_BRACKETS):
        attributes = page[at:end]
        if ('"' not in attributes and "'" not in attributes) or not _in_quotes(attributes):
            return end
        end = page.find(">", end + 1)
        if end < 0:
            break
    return first


def _in_quotes(attributes: str) -> bool:
    quote = ""
    for match in re.finditer(r"=\s{0,8}([\"'])|[\"']", attributes):
        if quote:
            quote = "" if match[0][-1] == quote else quote
        elif match[1]:
            quote = match[1]
    return bool(quote)


def _raw_end(page: str, tag: str, at: int) -> tuple[int, int]:
    """Return the end of a raw text element's content, and the position after its end tag."""
    match = _END_OF[tag].search(page, at)
    if match is None:
        return len(page), len(page)
    end = page.find(">", match.end())
    return match.start(), len(page) if end < 0 else end + 1


_END_OF = {tag: re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE) for tag in _RAW}


def _decoded(text: str) -> str:
    return html.unescape(_LONG_NUMBER.sub("", text)) if "&" in text else text


def _tidy(pieces: list[str]) -> str:
    """Return the text with single spaces and at most one empty line in a row."""
    lines = [_SPACE.sub(" ", line).strip() for line in "".join(pieces).split("\n")]
    lines = [line for line in lines if line != "-"]
    tidy_lines = [line for place, line in enumerate(lines) if line or (place and lines[place - 1])]
    return "\n".join(tidy_lines).strip()
