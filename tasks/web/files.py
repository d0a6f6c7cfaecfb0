"""`WebFileTasks`: tasks on sites of your own from a file, in WebArena's or WebShop's form.

WebArena's is a JSON list of `intent`, `sites`, `start_url` and `eval`; WebShop's one of `instruction`, `asin` and
`options`. `urls` gives the addresses of the sites. Tasks that cannot be graded through a browser are left out, with
the reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.base.choices import one_of
from agentgym.core.task import TEST, Task, TaskList
from agentgym.core.task_files import LeftOut, Quarantine, Unusable, Why
from agentgym.tasks.read_tasks import SPLITS, read_tasks, refuse_empty
from agentgym.tasks.records import Record, existing, read_records, whole_object
from agentgym.tasks.web.addresses import SiteAddresses, origins

_LOCATOR = re.compile(
    r"""document\.querySelector(?:All)?\((["'`])(?:(?!\1|\\).)+\1\)(?:\[\d+\])?\.(?:innerText|outerText|textContent|value)"""
)
_TYPES = ("string_match", "url_match", "program_html")
_MATCHES = ("exact_match", "must_include", "fuzzy_match")


def _unusable(reason: str) -> Unusable:
    """Return the error for a valid task that cannot be staged or graded through a browser alone."""
    return Unusable(reason, Why.UNSUPPORTED)


class WebFileTasks(TaskList):
    """Tasks of a file.

    Args:
        file: The file: a JSON list of tasks, or JSON lines.
        urls: Addresses of the sites, by the names that the file uses; WebShop's goals run on `webshop`.
        split_by: The split of all tasks.
        with_login: Keep tasks that need a login, for sites whose addresses log visitors in by themselves.
        strict: Raise `UsageError` for the first broken task instead of leaving it out.
    """

    left_out: tuple[LeftOut, ...]
    """Tasks of the file that cannot be used, each with the reason."""

    def __init__(
        self,
        file: str | Path,
        urls: Mapping[str, str] | None = None,
        *,
        split_by: str = TEST,
        with_login: bool = False,
        strict: bool = False,
    ):
        self.file, self._with_login = existing(file), with_login
        self._split = one_of("split_by", split_by, SPLITS)
        self._addresses = SiteAddresses(urls, "urls")
        quarantine = Quarantine(str(file), strict)
        records = _entries(self.file, quarantine)
        refuse_empty({self.file: len(records) + len(quarantine.entries)})
        labels = {record.where: record.label("task_id") or number for number, record in enumerate(records)}
        prefix = f"{self.file.stem}/{self._split}"
        entries = read_tasks(records, lambda record: self._task(f"{prefix}/{labels[record.where]}", record), quarantine)
        self.left_out = quarantine.entries
        quarantine.close(len(entries))
        super().__init__(read.task for read in entries)

    def _task(self, name: str, entry: Record) -> Task:
        if {"intent", "eval"} <= entry.fields.keys():
            return self._webarena(name, entry)
        if not {"asin", "instruction", "instruction_text"}.isdisjoint(entry.fields):
            return self._webshop(name, entry)
        raise Unusable(f"it has neither WebArena's form nor WebShop's; it has {sorted(map(str, entry.fields))}")

    def _webarena(self, name: str, entry: Record) -> Task:
        if entry.fields.get("require_login") and not self._with_login:
            raise _unusable("it needs a login; pass with_login=true if its sites log visitors in by themselves")
        start = self._addresses.filled(entry.text("start_url").split(" |AND| ")[0])
        gold = self._gold(Record(entry.where, entry.get("eval", dict)))
        sites = tuple(entry.texts("sites"))
        return Task(name, self._split, entry.text("intent"), data=self._data(start, sites), gold=gold, tags=sites)

    def _webshop(self, name: str, entry: Record) -> Task:
        instruction, asin = entry.text("instruction", "instruction_text").strip(), entry.label("asin")
        if not asin:
            raise Unusable("it names no product (asin)")
        options = entry.fields.get("options") or entry.fields.get("goal_options") or {}
        values = list(options.values()) if isinstance(options, Mapping) else options
        if not isinstance(values, list):
            raise Unusable(f"'options' must be an object or a list, not {options!r:.60}")
        gold = {"bought": {"asin": asin, "options": [str(value) for value in values]}}
        start = self._addresses.filled("__WEBSHOP__")
        return Task(name, self._split, instruction, data=self._data(start, ("webshop",)), gold=gold, tags=("webshop",))

    def _data(self, start: str, sites: Sequence[str]) -> dict[str, Any]:
        """Return the address to open, and the origins that the browser may reach."""
        return {"url": start, "allowed": origins([start, *self._addresses.known(sites).values()])}

    def _gold(self, rule: Record) -> dict[str, Any]:
        types = rule.texts("eval_types")
        if unknown := [kind for kind in types or ("nothing",) if kind not in _TYPES]:
            raise _unusable(f"it is graded by {unknown[0]!r}; known are {', '.join(_TYPES)}")
        gold: dict[str, Any] = {}
        if "string_match" in types:
            gold["answer"] = _references(rule.get("reference_answers", dict, {}))
        if "url_match" in types:
            urls = rule.label("reference_url").split(" |OR| ")
            gold["urls"] = [self._addresses.filled(url) for url in urls if url]
            if not gold["urls"]:
                raise Unusable("it has no reference_url")
        if "program_html" in types:
            gold["pages"] = [self._page(target.fields) for target in rule.records("program_html")]
        return gold

    def _page(self, target: Mapping[str, Any]) -> dict[str, Any]:
        url, locator = str(target.get("url", "last")), str(target.get("locator") or "").strip()
        if url.startswith("func:") or "__last_url__" in url:
            raise _unusable("its reference page is found by a program")
        if locator and _LOCATOR.fullmatch(locator) is None:
            raise _unusable(f"its page is read by a program: {locator[:80]!r}")
        contents = target.get("required_contents") or {}
        if not isinstance(contents, Mapping):
            contents = {"must_include": [contents]}
        return {
            "url": "" if url == "last" else self._addresses.filled(url),
            "locator": locator,
            "contents": _references(contents),
        }


def _references(reference: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the texts to compare with, by kind of comparison."""
    if unknown := [kind for kind in reference if kind not in _MATCHES]:
        raise _unusable(f"its text is compared by {unknown[0]!r}; known are {', '.join(_MATCHES)}")
    if odd := [texts for texts in reference.values() if not isinstance(texts, str | list)]:
        raise Unusable(f"the text to compare with must be a text or a list of texts, not {odd[0]!r:.60}")
    texts_of = {kind: [texts] if isinstance(texts, str) else [*map(str, texts)] for kind, texts in reference.items()}
    if not any(texts_of.values()):
        raise Unusable("it has no text to compare with")
    return texts_of


def _entries(file: Path, quarantine: Quarantine) -> list[Record]:
    """Return the tasks of a file, which may also hold a single object."""
    if (only := whole_object(file)) is not None:
        return [Record(str(file), only, file)]
    return list(read_records(file, quarantine))
