"""`WebFileTasks`: tasks on sites of your own from a file, in WebArena's or WebShop's form.

WebArena's is a JSON list of `intent`, `sites`, `start_url` and `eval`; WebShop's one of `instruction`, `asin` and
`options`. Sites are named by address. What cannot be graded by what a browser sees is left out, with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agentgym.errors import UsageError
from agentgym.task import TEST, Task, TaskList

_PLACEHOLDER = re.compile(r"__([A-Z_]+?)__")
_LOCATOR = re.compile(
    r"""document\.querySelector(?:All)?\((["'`])(?:(?!\1|\\).)+\1\)(?:\[\d+\])?\.(?:innerText|outerText|textContent|value)"""
)
_TYPES = ("string_match", "url_match", "program_html")
_MATCHES = ("exact_match", "must_include", "fuzzy_match")


@dataclass(frozen=True)
class LeftOut:
    """A task of a file that cannot be used."""

    id: str
    reason: str


class _Unusable(Exception):
    """Why a task cannot be used."""


class WebFileTasks(TaskList):
    """Tasks of a file.

    Args:
        file: The JSON file: a list of tasks.
        urls: Addresses of the sites by the names that the file uses; WebShop's goals are for `webshop`.
        split: The split that the tasks form.
        with_login: Keep tasks that need a login, for sites whose addresses log visitors in by themselves.
    """

    def __init__(self, file: str | Path, urls: Mapping[str, str], *, split: str = TEST, with_login: bool = False):
        self.file, self._split, self._with_login = Path(file), split, with_login
        self._urls = {name: _origin_and_path(name, url) for name, url in urls.items()}
        left_out: list[LeftOut] = []
        tasks: list[Task] = []
        for number, entry in enumerate(_entries(self.file)):
            name = f"{self.file.stem}/{split}/{entry.get('task_id', number)}"
            try:
                tasks.append(self._task(name, entry))
            except _Unusable as reason:
                left_out.append(LeftOut(name, str(reason)))
        self.left_out: tuple[LeftOut, ...] = tuple(left_out)
        """Tasks of the file that cannot be used, each with its reason."""
        if not tasks:
            why = f"; the first: {left_out[0].reason}" if left_out else ""
            raise UsageError(f"{str(self.file)!r} has no task that can be used ({len(left_out)} were left out{why})")
        super().__init__(tasks)

    def _task(self, name: str, entry: Mapping[str, Any]) -> Task:
        if "intent" in entry and "eval" in entry:
            return self._webarena(name, entry)
        if "asin" in entry or "instruction" in entry or "instruction_text" in entry:
            return self._webshop(name, entry)
        raise UsageError(f"{str(self.file)!r}: {name} is neither WebArena's form nor WebShop's; it has {sorted(entry)}")

    def _webarena(self, name: str, entry: Mapping[str, Any]) -> Task:
        if entry.get("require_login") and not self._with_login:
            raise _Unusable("it needs a login; pass with_login=True if its sites log visitors in by themselves")
        start = self._address(str(entry["start_url"]).split(" |AND| ")[0])
        gold = self._gold(entry["eval"])
        sites = tuple(map(str, entry.get("sites", ())))
        return Task(name, self._split, str(entry["intent"]), data=self._data(start, sites), gold=gold, tags=sites)

    def _webshop(self, name: str, entry: Mapping[str, Any]) -> Task:
        instruction = str(entry.get("instruction") or entry.get("instruction_text") or "").strip()
        if not instruction or not entry.get("asin"):
            raise _Unusable("it names no product (asin), or has no instruction")
        options = entry.get("options") or entry.get("goal_options") or {}
        values = list(options.values()) if isinstance(options, Mapping) else list(options)
        gold = {"bought": {"asin": str(entry["asin"]), "options": [str(value) for value in values]}}
        start = self._address("__WEBSHOP__")
        return Task(name, self._split, instruction, data=self._data(start, ("webshop",)), gold=gold, tags=("webshop",))

    def _data(self, start: str, sites: Sequence[str]) -> dict[str, Any]:
        """What the environment opens, and the origins that it may reach."""
        known = [self._urls[site] for site in sites if site in self._urls]
        return {"url": start, "allowed": sorted({_origin(address) for address in (start, *known)})}

    def _gold(self, rule: Mapping[str, Any]) -> dict[str, Any]:
        types = tuple(rule.get("eval_types", ()))
        if unknown := [kind for kind in types or ("nothing",) if kind not in _TYPES]:
            raise _Unusable(f"it is graded by {unknown[0]!r}; known are {', '.join(_TYPES)}")
        gold: dict[str, Any] = {}
        if "string_match" in types:
            gold["answer"] = _wanted(rule.get("reference_answers") or {})
        if "url_match" in types:
            urls = str(rule.get("reference_url") or "").split(" |OR| ")
            gold["urls"] = [self._address(url) for url in urls if url]
            if not gold["urls"]:
                raise _Unusable("it has no reference_url")
        if "program_html" in types:
            gold["pages"] = [self._page(target) for target in rule.get("program_html") or ()]
        return gold

    def _page(self, target: Mapping[str, Any]) -> dict[str, Any]:
        url, locator = str(target.get("url", "last")), str(target.get("locator") or "").strip()
        if url.startswith("func:") or "__last_url__" in url:
            raise _Unusable("the page that decides is found by a program")
        if locator and _LOCATOR.fullmatch(locator) is None:
            raise _Unusable(f"its page is read by a program: {locator[:80]!r}")
        contents = target.get("required_contents") or {}
        if not isinstance(contents, Mapping):
            contents = {"must_include": [contents]}
        return {
            "url": "" if url == "last" else self._address(url),
            "locator": locator,
            "contents": _wanted(contents),
        }

    def _address(self, url: str) -> str:
        """Return an address with the names of sites replaced by theirs."""

        def of_site(match: re.Match[str]) -> str:
            site = match[1].lower()
            if site not in self._urls:
                raise _Unusable(f"there is no address for the site {site!r}; pass urls={{{site!r}: 'http://...'}}")
            return self._urls[site]

        address = _PLACEHOLDER.sub(of_site, url.strip())
        if urlsplit(address).scheme not in ("http", "https"):
            raise _Unusable(f"{url[:80]!r} is no web address")
        return address


def _wanted(reference: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what a text has to say: lists of texts by the way they are compared."""
    if unknown := [kind for kind in reference if kind not in _MATCHES]:
        raise _Unusable(f"its text is compared by {unknown[0]!r}; known are {', '.join(_MATCHES)}")
    wanted = {kind: [texts] if isinstance(texts, str) else [*map(str, texts)] for kind, texts in reference.items()}
    if not any(wanted.values()):
        raise _Unusable("it says nothing that a text could be compared with")
    return wanted


def _entries(file: Path) -> Iterator[Mapping[str, Any]]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {str(file)!r}") from error
    except json.JSONDecodeError as error:
        raise UsageError(f"{str(file)!r} is not JSON: {error}") from error
    entries = [content] if isinstance(content, Mapping) else content
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise UsageError(f"{str(file)!r} must hold a JSON list of tasks")
    yield from entries


def _origin_and_path(name: str, url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"the address of site {name!r} must be like http://host:port, not {url!r}")
    return url.rstrip("/")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
