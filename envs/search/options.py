"""From the arguments of `SearchEnv` to tasks and tools; what cannot be is told in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.errors import UsageError
from agentgym.task import TaskSource
from agentgym.task_files import Layout, TaskFiles
from agentgym.tasks.search import SearchTasks

FILES = TaskFiles(
    argument="folder",
    loader="agentgym.tasks.search_files:SearchFileTasks",
    options={
        "format": "squad, hotpotqa, 2wiki, musique, open or closed; told by what the file holds if not given",
        "split_by": "auto, file (names say train, dev, test), hash, or one split for all: train, validation, test",
    },
    layouts=(
        Layout("HotpotQA", "hotpot_dev_distractor_v1.json", "folder=hotpot_dev_distractor_v1.json"),
        Layout(
            "MuSiQue", "musique_ans_v1.0_dev.jsonl, or musique_full_v1.0_dev.jsonl", "folder=musique_ans_v1.0_dev.jsonl"
        ),
        Layout("SQuAD", "train-v2.0.json and dev-v2.0.json, or one of them", "folder=dev-v2.0.json"),
        Layout("2WikiMultihopQA", "dev.json", "folder=2wiki/dev.json"),
        Layout("NQ-open", "NQ-open.dev.jsonl; index=... says what is searched", "folder=NQ-open.dev.jsonl"),
        Layout(
            "your own",
            "a folder with corpus.jsonl (title, text) and questions.jsonl (id, question, answer)",
            "folder=DIR",
        ),
    ),
    generated=frozenset(
        {"difficulty", "families", "relations", "task_seed", "passages", "worlds", "questions_per_world"}
    ),
)


def task_source(tasks: TaskSource | None, choices: Mapping[str, Any]) -> TaskSource:
    """Return `tasks`, the questions of the files that `choices` name, or generated ones."""
    if (source := FILES.source(tasks, choices)) is not None:
        return source
    return SearchTasks(**FILES.generator_choices(choices, task_seed="seed"))


def tool_names(*, pages: bool, judge: bool, two_stage: bool) -> tuple[str, ...]:
    """Return the names of the tools that are offered."""
    names = ["search", *(("open", "more", "find") if pages else ()), "answer"]
    return (*(["decide"] if two_stage else []), *names, *(["judge"] if judge else []))


def between(name: str, value: int, least: int, most: int) -> int:
    """Return `value` if it lies in the bounds."""
    if not least <= value <= most:
        raise UsageError(f"{name} must be from {least} to {most}, not {value!r}")
    return value
