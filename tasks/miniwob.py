"""`MiniWoBTasks`: the pages of MiniWoB++ (Shi et al. 2017, Liu et al. 2018) as a task source; a seed makes the task.

The pages themselves are in the package `miniwob`, their rewards are their own. Splits have seeds of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.builtin import MINIWOB_PAGES
from agentgym.errors import TaskError, UsageError
from agentgym.task import TEST, TRAIN, VALIDATION, Task, check_split

_REMAINDERS = {TRAIN: (0, 1, 2, 3, 4, 5, 6, 7), VALIDATION: (8,), TEST: (9,)}
"""Seeds of each split, modulo 10."""


class MiniWoBTasks:
    """Tasks on pages of MiniWoB++. Every split is without end; tasks go round over the pages.

    Args:
        pages: Names of the pages, such as `click-button`; all if not given.
        seed: Other seeds give other tasks.
    """

    def __init__(self, pages: str | Sequence[str] | None = None, seed: int = 0):
        wanted = MINIWOB_PAGES if pages is None else (pages,) if isinstance(pages, str) else tuple(pages)
        if unknown := [page for page in wanted if page not in MINIWOB_PAGES]:
            raise UsageError(f"unknown page of MiniWoB++ {unknown[0]!r}; choose from: {', '.join(MINIWOB_PAGES)}")
        if not wanted:
            raise UsageError("name at least one page of MiniWoB++")
        self.pages, self._seed = wanted, seed

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(_REMAINDERS)

    def size(self, split: str) -> None:
        """Return `None`: no split has an end. Raises `TaskError` for an unknown split."""
        check_split(self, split)

    def get(self, split: str, index: int) -> Task:
        """Return task number `index` of `split`."""
        check_split(self, split)
        if index < 0:
            raise TaskError(f"task numbers start at 0, not {index}")
        page = self.pages[index % len(self.pages)]
        rest = _REMAINDERS[split]
        number = self._seed * 1_000_003 + index
        page_seed = number // len(rest) * 10 + rest[number % len(rest)]
        data = {"page": page, "seed": page_seed}
        return Task(f"miniwob/{split}/{index}", split, f"A page of MiniWoB++: {page}.", data=data, tags=(page,))

    def find(self, task_id: str) -> Task:
        """Return the task with an id such as `miniwob/train/17`."""
        source, _, rest = task_id.partition("/")
        split, _, index = rest.partition("/")
        if source != "miniwob" or split not in self.splits or not index.isdecimal():
            raise TaskError(f"no task {task_id!r}; ids look like miniwob/{self.splits[0]}/0")
        return self.get(split, int(index))
