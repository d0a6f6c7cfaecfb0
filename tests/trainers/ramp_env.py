"""The search environment with a curriculum, which searches at the start of an episode and keeps what it was shown."""

from __future__ import annotations

from typing import Any

from agentgym.core.task import GeneratedTasks, Task
from agentgym.envs.search import SearchEnv
from agentgym.tools.index import Document, MemoryIndex

PAGES = [
    Document(f"p{n}", f"Page {n}", f"The mill number {n} is by the river and burned in the year 1902.")
    for n in range(40)
]
GOLD = {"answers": ["1902"], "evidence": [], "unanswerable": False, "hops": []}


def _task(split: str, index: int) -> Task:
    return Task(f"ramp/{split}/{index}", split, f"When did the mill burn ({split} {index})?", gold=GOLD)


class RampEnv(SearchEnv):
    """Search for the mill before the first turn."""

    shown: list[tuple[int | None, float]] = []
    """Of all episodes: the training step, and the share of ten results that say the truth."""

    def __init__(self, **kwargs: Any):
        tasks = GeneratedTasks("ramp", _task, {"train": None, "test": 50})
        super().__init__(index=MemoryIndex(PAGES), tasks=tasks, k=10, results="passages", max_turns=1, **kwargs)

    def start(self, task: Task) -> str:
        question = super().start(task)
        lines = self.search("mill burned river")().splitlines()
        self.shown.append((self.training_step, sum("1902" in line for line in lines) / len(lines)))
        return question
