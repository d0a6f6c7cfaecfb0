"""`RemoteTasks`: the tasks of a served environment, fetched one by one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from agentgym.errors import TaskError
from agentgym.interop.remote.connection import EnvConnection
from agentgym.interop.remote.wire import task_of
from agentgym.task import Task, check_split

_CACHED = 1024


class RemoteTasks:
    """A task source over the wire. Unless the server reveals them, tasks come without their data and gold."""

    def __init__(self, connection: EnvConnection, sizes: Mapping[str, int | None]):
        self._connection, self._sizes = connection, dict(sizes)
        self._cache: OrderedDict[tuple[Any, ...], Task] = OrderedDict()

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self._sizes)

    def size(self, split: str) -> int | None:
        """Number of tasks in `split`; `None` if it is endless."""
        return self._sizes[check_split(self, split)]

    def get(self, split: str, index: int) -> Task:
        """Return task number `index` of `split`."""
        size = self.size(split)
        if index < 0 or (size is not None and index >= size):
            raise TaskError(f"split {split!r} has no task {index}; it has {'no end' if size is None else size}")
        return self._fetch((split, index), {"split": split, "index": index})

    def find(self, task_id: str) -> Task:
        """Return the task with this id."""
        return self._fetch((task_id,), {"task": task_id})

    def _fetch(self, key: tuple[Any, ...], selector: Mapping[str, Any]) -> Task:
        task = self._cache.get(key)
        if task is None:
            task = self._cache[key] = task_of(self._connection.ask("task", wanted=selector)["task"])
            if len(self._cache) > _CACHED:
                self._cache.popitem(last=False)
        return task
