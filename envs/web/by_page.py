"""Grades tasks on external sites by the answer, the final address and the text of pages.

The rules are WebArena's (arXiv 2307.13854) without its judge: `fuzzy_match` compares normalised texts. A purchase at
WebShop (arXiv 2207.01206) is recognised by the address of the confirmation page.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from agentgym.base.errors import ToolError
from agentgym.tools.browser import BrowserSession

_OR = " |OR| "
_NOT_POSSIBLE = ("n/a", "na", "impossible", "not possible", "not achievable")
_WHOLE_PAGE = "document.documentElement.outerHTML + '\\n' + document.body.innerText"
_URL = "location.href"


def verdicts(session: BrowserSession, gold: Mapping[str, Any], answer: str | None) -> list[bool]:
    """Return whether each part of a task holds. May open other pages."""
    last = str(session.read(_URL))
    held: list[bool] = []
    if "answer" in gold:
        held.append(answer is not None and answer_holds(answer, gold["answer"]))
    if "urls" in gold:
        held.append(url_holds(last, gold["urls"]))
    if "bought" in gold:
        held.append(bought(last, gold["bought"]["asin"], gold["bought"]["options"]))
    pages = sorted(gold.get("pages", ()), key=lambda page: page["url"] != "")
    return held + [text_holds(_text(session, page), page["contents"]) for page in pages]


def answer_holds(answer_text: str, expected: Mapping[str, Sequence[str]]) -> bool:
    """Whether an answer is right: equal to, or including, every text of `expected`."""
    answer = _plain(answer_text)
    exact = all(_same(answer, text) for text in expected.get("exact_match", ()))
    included = expected.get("must_include", ())
    words = len(included) == 1 and len(_plain(included[0]).split()) == 1
    including = all(_includes(answer, text, words) for text in included)
    return exact and including and all(_alike(answer, text) for text in expected.get("fuzzy_match", ()))


def text_holds(text: str, expected: Mapping[str, Sequence[str]]) -> bool:
    """Whether the text of a page equals, or includes, every text of `expected`; ` |OR| ` separates choices."""
    page = " ".join(html.unescape(text).split())
    exact = all(page == " ".join(text.split()) for text in expected.get("exact_match", ()))
    parts = [*expected.get("must_include", ()), *expected.get("fuzzy_match", ())]
    return exact and all(any(" ".join(choice.split()) in page for choice in part.split(_OR)) for part in parts)


def url_holds(url: str, expected: Sequence[str]) -> bool:
    """Whether an address is, or is below, one of `expected`, and has the parameters of its query."""
    query = parse_qs(urlsplit(url).query)
    for choice in expected:
        required = parse_qs(urlsplit(choice).query)
        if _place(choice) in _place(url) and all(set(query.get(key, ())) & set(required[key]) for key in required):
            return True
    return False


def bought(url: str, asin: str, options: Sequence[str]) -> bool:
    """Whether an address is the confirmation page of a purchase of a product with its options."""
    path = unquote(urlsplit(url).path)
    parts = path.casefold().split("/")
    has_options = all(option.casefold() in path.casefold() for option in options)
    return "done" in parts and asin.casefold() in parts and has_options


def _text(session: BrowserSession, page: Mapping[str, Any]) -> str:
    try:
        if page["url"]:
            session.goto(page["url"])
        expression = page["locator"] or _WHOLE_PAGE
        return str(session.read(f"(() => {{ try {{ return {expression} }} catch {{ return '' }} }})()") or "")
    except ToolError:
        return ""


def _place(url: str) -> str:
    parts = urlsplit(url.strip())
    return f"{parts.netloc}{parts.path}".rstrip("/").lower()


def _plain(text: str) -> str:
    return " ".join(text.split()).strip("\"' ").casefold()


def _normal(text: str) -> str:
    return " ".join(re.findall(r"[\w$€£%.]+", re.sub(r"(?<=\d),(?=\d)", "", text.casefold())))


def _same(answer: str, text: str) -> bool:
    if _plain(text) in _NOT_POSSIBLE:
        return answer.rstrip(".") in _NOT_POSSIBLE
    return any(answer == _plain(choice) for choice in text.split(_OR))


def _includes(answer: str, text: str, words: bool) -> bool:
    whole = re.findall(r"[^\s,;:()]+", answer)
    place = {*whole, *(word.strip(".!?$€£%") for word in whole)} if words else answer
    return any(_plain(choice) in place for choice in text.split(_OR))


def _alike(answer: str, text: str) -> bool:
    choices = [_normal(choice) for choice in text.split(_OR)]
    return _same(answer, text) or any(choice and f" {choice} " in f" {_normal(answer)} " for choice in choices)
