"""`MiniWoBTasks`: the pages of MiniWoB++ (Shi et al. 2017, Liu et al. 2018) as a task source.

The package `miniwob` holds the pages, which compute their own rewards. Splits share no seed.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.base.choices import some_of
from agentgym.core.task import GeneratedTasks, Task
from agentgym.procedural import SEED_DIGITS
from agentgym.tasks.miniwob_pages import MINIWOB_PAGES


class MiniWoBTasks(GeneratedTasks):
    """Tasks on pages of MiniWoB++. No split ends; the pages take turns.

    Args:
        pages: Names of the pages, such as `click-button`; by default all.
        seed: Other seeds give other tasks.
    """

    def __init__(self, pages: str | Sequence[str] | None = None, seed: int = 0):
        self.pages, self._seed = some_of("page of MiniWoB++", pages, MINIWOB_PAGES), seed
        super().__init__("miniwob", self._task, dict.fromkeys(SEED_DIGITS))

    def _task(self, split: str, index: int) -> Task:
        page = self.pages[index % len(self.pages)]
        digits = SEED_DIGITS[split]
        number = self._seed * 1_000_003 + index
        page_seed = number // len(digits) * 10 + digits[number % len(digits)]
        data = {"page": page, "seed": page_seed}
        return Task(f"miniwob/{split}/{index}", split, f"A page of MiniWoB++: {page}.", data=data, tags=(page,))
