"""Access to the package `webarena-verified`: its data set, its subsets and its model of a task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentgym.core.task_files import Unusable
from agentgym.interop.packages import require_package

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
