"""`WebArenaTasks`: the entries of WebArena-Verified as tasks on sites whose addresses the user names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentgym.base.choices import one_of
from agentgym.core.task import TEST, Task, TaskList
from agentgym.core.task_files import LeftOut, Quarantine, Unusable
from agentgym.interop.packages import require_package
from agentgym.tasks.read_tasks import Splitter, read_tasks, refuse_empty
from agentgym.tasks.records import Record, existing, read_records
from agentgym.tasks.web.addresses import SiteAddresses, origins

_PACKAGE = "webarena_verified"
SUBSETS = ("hard", "non-hard")


def data_set() -> Path:
    """Return the file of all tasks that the package brings."""
    require_package(_PACKAGE)
    return Path(str(files(_PACKAGE).joinpath("assets", "dataset", "webarena-verified.json")))


def subset_ids(subset: str) -> frozenset[int]:
    """Return the numbers of the tasks of one of `SUBSETS`."""
    require_package(_PACKAGE)
    file = files(_PACKAGE).joinpath("assets", "dataset", "subsets", f"webarena-verified-{subset}.json")
    return frozenset(json.loads(file.read_text(encoding="utf-8"))["task_ids"])


def parsed(entry: Mapping[str, Any]) -> Any:
    """Return an entry as the package's own task. Raises `Unusable` if the package refuses it."""
    try:
        return import_module(f"{_PACKAGE}.types.task").WebArenaVerifiedTask.model_validate(dict(entry))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the entry"
        raise Unusable(f"the package refuses it: {place}: {first['msg']}") from error


_GOLD = "eval"


class WebArenaTasks(TaskList):
    """Tasks in the form of WebArena-Verified.

    Args:
        file: A JSON list of entries, or JSON lines.
        sites: Addresses of the sites by name, such as `{"shopping": "http://127.0.0.1:7770"}`. Tasks on others are left
            out.
        subset: `"hard"` or `"non-hard"`: the entries with the numbers that the package lists for it.
        split_by: `"auto"`, `"file"`, `"hash"` or the one split of all tasks. With `"hash"`, tasks made from the same
            template are in the same split.
        strict: Raise `UsageError` for the first broken entry instead of leaving it out.

    Raises:
        MissingExtra: `webarena-verified` is not installed.
    """

    left_out: tuple[LeftOut, ...]
    """Entries that yield no task, each with the reason."""

    def __init__(
        self,
        file: str | Path,
        sites: Mapping[str, str] | None = None,
        *,
        subset: str | None = None,
        split_by: str = TEST,
        strict: bool = False,
    ):
        require_package("webarena_verified")
        self.file = existing(file)
        self._addresses = SiteAddresses(sites, "sites")
        self._splitter = Splitter.of(split_by, [self.file])
        quarantine = Quarantine(str(file), strict)
        records = list(read_records(self.file, quarantine))
        refuse_empty({self.file: len(records) + len(quarantine.entries)})
        if subset is not None:
            numbers = subset_ids(one_of("subset", subset, SUBSETS))
            records = [
                record for record in records if isinstance(id_ := record.fields.get("task_id"), int) and id_ in numbers
            ]
        tasks = read_tasks(records, self._task, quarantine)
        self.left_out = quarantine.entries
        quarantine.close(len(tasks))
        super().__init__(read.task for read in tasks)

    def _task(self, entry: Record) -> Task:
        theirs = parsed(entry.fields)
        names = [site.value for site in theirs.sites]
        sites = {name: self._addresses.of(name) for name in names}
        start = [self._addresses.filled(url) for url in theirs.start_urls]
        if not start:
            raise Unusable("it has no start_urls")
        return Task(
            id=f"{self.file.stem}/{theirs.task_id}",
            split=self._splitter.split(self.file, f"webarena {theirs.intent_template_id}"),
            prompt=theirs.intent,
            data={
                "entry": {name: value for name, value in entry.fields.items() if name != _GOLD},
                "sites": sites,
                "start": start,
                "allowed": origins([*start, *sites.values()]),
            },
            gold={_GOLD: entry.fields[_GOLD]},
            tags=(*names, theirs.expected_action.lower()),
        )


def entry_of(task: Task) -> dict[str, Any]:
    """Return the entry that a task was read from."""
    return {**task.data["entry"], **task.gold}
