"""The arguments of `SearchEnv` that choose tasks, and checks of its other arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.engine.authoring import EnvArguments
from agentgym.errors import UsageError
from agentgym.procedural import Wording
from agentgym.task import TaskSource
from agentgym.task_files.declaring import Layout, TaskFiles
from agentgym.tasks.search import SearchTasks

FILES = TaskFiles(
    argument="folder",
    loader="agentgym.tasks.search.files:SearchFileTasks",
    options={
        "format": "squad, hotpotqa, 2wiki, musique, open or closed; recognised from the content if not given",
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


class SearchArguments(EnvArguments, total=False):
    """The choices of tasks that `SearchEnv` takes, and the arguments of every environment."""

    difficulty: int | Sequence[int] | None
    families: Sequence[str] | None
    relations: Sequence[str] | None
    task_seed: int | None
    passages: int | None
    worlds: int | None
    questions_per_world: int | None
    folder: str | Path | None
    format: str | None
    split_by: str | None
    strict: bool


_FORMER = {
    "judge": "mode=reseek",
    "scorer": "mode=Judging(scorer=...), in Python",
    "two_stage": "mode=adasearch",
    "needs_search": "mode={name: adasearch, needs_search: {...}}",
    "simulated": "mode={name: zerosearch, ...}",
}
"""Former arguments, and what to pass instead."""


def task_source(tasks: TaskSource | None, choices: Mapping[str, Any], wording: Wording) -> TaskSource:
    """Return `tasks` if given, else the questions of the files that `choices` name, else generated ones."""
    if (source := FILES.source(tasks, choices)) is not None:
        return source
    return SearchTasks(**FILES.generator_choices(choices, task_seed="seed"), wording=wording)


def refuse_former(arguments: Iterable[str]) -> None:
    """Raise `UsageError` for an argument that a mode has replaced."""
    for name in arguments:
        if name in _FORMER:
            raise UsageError(f"the argument {name!r} was removed; pass {_FORMER[name]}")


def between(name: str, value: int, least: int, most: int) -> int:
    """Return `value` if it is from `least` to `most`. Raises `UsageError` otherwise."""
    if not least <= value <= most:
        raise UsageError(f"{name} must be from {least} to {most}, not {value!r}")
    return value
