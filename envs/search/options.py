"""The arguments of `SearchEnv` that choose tasks, and checks of its other arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym.base.errors import UsageError
from agentgym.core.engine.authoring import EnvArguments
from agentgym.core.rewards import OUTCOME, Gate, Scheme
from agentgym.core.task import TaskSource
from agentgym.core.task_files import Layout, TaskFiles
from agentgym.envs.search.judging import RIGHT
from agentgym.procedural import Wording
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


TIER_WRONG_FORMAT, TIER_FORMAT, TIER_ANSWERED = -0.2, 0.2, 0.1
"""Search-R1 v0.3: the cost of a broken format for a right answer, the reward of a correct format, and of any answer."""


def _with_evidence(*opens: str) -> Gate:
    """Return the gate that lets channels count in episodes that have shown evidence."""
    return Gate(on="evidence", at_least=0.0, strict=True, opens=opens)


DEFAULT = Scheme(
    weights={
        OUTCOME: 1.0,
        "f1": 0.2,
        "evidence": 0.1,
        "citations": 0.05,
        "format": 0.05,
        "redundant": -0.05,
        "searches": -0.01,
    },
    gates=(
        Gate(on="answered", at_least=1.0, opens=("f1", "evidence")),
        _with_evidence("f1"),
        Gate(on="f1", at_least=0.5, opens=("f1",)),
        Gate(on=OUTCOME, at_least=1.0, opens=("citations", "format", "redundant", "searches")),
    ),
    averaged=frozenset({"format"}),
    # Means over the turns would make searches cheaper in longer episodes.
    capped={"redundant": 4.0, "searches": 20.0},
)
"""A failed episode is paid for the evidence it has shown and for a partly right answer. Its searches cost nothing:
otherwise not searching would pay more."""
SEARCH_R1 = Scheme(
    weights={OUTCOME: 1.0, "tier": 1.0, "broken": TIER_WRONG_FORMAT},
    gates=(_with_evidence("tier"),),
)
"""Search-R1's tiers. Without evidence, a wrong or missing answer earns nothing; in the paper's code it earns 0.1 or
0.2."""
RESEEK = Scheme(
    weights={OUTCOME: 1.0, "judged_right": 1.0, "judged_wrong": 1.0},
    gates=(_with_evidence("judged_right"),),
    averaged=frozenset({"judged_wrong"}),
    capped={"judged_right": RIGHT},
)
"""ReSeek's values, but right verdicts are paid once, and only if evidence was shown, and the cost of wrong ones is
averaged over the turns. The paper adds them all up, so that verdicts on useless searches can rival the outcome."""
ADASEARCH = Scheme(
    weights={OUTCOME: 1.0, "rightly_searched": 0.5, "rightly_known": 0.5},
    gates=(_with_evidence("rightly_searched"), Gate(on=OUTCOME, at_least=1.0, opens=("rightly_known",))),
)
"""AdaSearch's reward of a right decision, paid only if the policy acts on it: a decision to search once evidence was
shown, a decision to answer directly if the answer is right. The paper pays for the decision alone."""

SCHEMES = {
    "search-r1": SEARCH_R1,
    "reseek": RESEEK,
    "adasearch": ADASEARCH,
}


def tier(*, right: bool, readable: bool, answered: bool) -> float:
    """Return the reward of Search-R1's tiers on top of exact match.

    Together with it: right 1, right with a broken format 0.8, wrong 0.2, wrong with a broken format 0.1, no answer
    0.2, and nothing for no answer with a broken format.
    """
    if right:
        return 0.0 if readable else TIER_WRONG_FORMAT
    if readable:
        return TIER_FORMAT
    return TIER_ANSWERED if answered else 0.0
