"""`SQLTasks`: the procedural source of SQL questions, with splits that share no question.

Databases are shared by all splits of a domain; questions are not. The gold SQL of a question, together with its
domain, decides by hash which split it belongs to, so one query on one domain is never asked in two splits, whatever
the wording, the database, the dialect or the seed. `test_unseen` asks about domains that no other split has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from agentgym.errors import TaskError, UsageError
from agentgym.task import TEST, TRAIN, VALIDATION, Task, check_split, split_of
from agentgym.tasks.sql import (
    families_basic,
    families_filter,
    families_group,
    families_join,
    families_nested,
    families_relate,
    families_steps,
    families_window,
)
from agentgym.tasks.sql.database import database_for
from agentgym.tasks.sql.domains import HELD_OUT, domain_names
from agentgym.tasks.sql.questions import FAMILIES, Draft, Family, NoFit, is_good, run_steps, to_sqlite
from agentgym.tasks.sql.scene import Scene
from agentgym.tasks.sql.world import open_world
from agentgym.tools.database.schema import DatabaseSpec

TEST_UNSEEN = "test_unseen"
SHARES = {TRAIN: 0.8, VALIDATION: 0.1, TEST: 0.1}
"""Which part of the questions on the domains that are not held out goes to which split."""
DIALECTS = ("duckdb", "sqlite", "mixed")
FAMILY_MODULES = (
    families_basic,
    families_filter,
    families_group,
    families_join,
    families_nested,
    families_relate,
    families_steps,
    families_window,
)
"""The modules that fill `FAMILIES`, easier ones first."""
_DRAWS = 600
"""Draws of one family before another one of its level takes its place."""


class SQLTasks:
    """Questions about generated databases, answered by a query. Every split is without end.

    Tasks go round over the levels, and within a level over its families. Where a family has no question for a split
    (with few domains that happens to the few questions without literals), another one of its level takes its place.

    Args:
        difficulty: Level or levels to ask, 1 to 5; `None` for all.
        families: Names of the question families to ask; `None` for all (of the levels).
        domains: Names of the domains to ask about; `None` for all. Held-out ones serve `test_unseen` only.
        dialect: SQL dialect of the gold: `duckdb`, `sqlite`, or `mixed` for either by chance.
        databases_per_domain: How many databases each domain has.
        seed: Other seeds ask other questions about other databases; splits stay disjoint across seeds.
    """

    def __init__(
        self,
        difficulty: int | Sequence[int] | None = None,
        families: Sequence[str] | None = None,
        domains: Sequence[str] | None = None,
        dialect: str = "duckdb",
        databases_per_domain: int = 4,
        seed: int = 0,
    ):
        if dialect not in DIALECTS:
            raise UsageError(f"unknown dialect {dialect!r}; choose from: {', '.join(DIALECTS)}")
        if not 1 <= databases_per_domain <= 1000:
            raise UsageError(f"databases_per_domain must be 1 to 1000, not {databases_per_domain!r}")
        self._levels = _choose_families(difficulty, families)
        chosen = _known("domain", domains, domain_names())
        seen = tuple(name for name in chosen if name not in HELD_OUT)
        unseen = tuple(name for name in chosen if name in HELD_OUT)
        self._domains = dict.fromkeys(SHARES, seen) if seen else {}
        if unseen:
            self._domains[TEST_UNSEEN] = unseen
        self._dialect, self._databases, self._seed = dialect, databases_per_domain, seed

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self._domains)

    def size(self, split: str) -> None:
        """Return `None`: no split has an end. Raises `TaskError` for an unknown split."""
        check_split(self, split)

    def get(self, split: str, index: int) -> Task:
        """Return task number `index` of `split`."""
        if index < 0:
            raise TaskError(f"task numbers start at 0, not {index}")
        check_split(self, split)
        families = self._levels[index % len(self._levels)]
        first = index // len(self._levels) % len(families)
        rng = Random(f"sql/{self._seed}/{split}/{index}")
        for choice in (*families[first:], *families[:first]):
            for _ in range(_DRAWS):
                task = self._draw(choice, split, index, rng)
                if task is not None:
                    return task
        names = ", ".join(choice.name for choice in families)
        raise TaskError(f"found no question of {names} for split {split!r}; allow more domains or families")

    def find(self, task_id: str) -> Task:
        """Return the task with an id such as `sql/train/17`."""
        source, split, index = [*task_id.split("/"), "", ""][:3]
        if source != "sql" or split not in self.splits or task_id != f"sql/{split}/{index}" or not index.isdecimal():
            raise TaskError(f"no task {task_id!r}; ids look like sql/{self.splits[0]}/0")
        return self.get(split, int(index))

    def database(self, task: Task) -> DatabaseSpec:
        """Return the database that `task` asks about."""
        return database_for(task.data)

    def _draw(self, choice: Family, split: str, index: int, rng: Random) -> Task | None:
        domain = rng.choice(self._domains[split])
        database_seed = self._seed * 1000 + rng.randrange(self._databases)
        world = open_world(domain, database_seed)
        try:
            draft = choice.draw(Scene(world, rng))
        except NoFit:
            return None
        if split != TEST_UNSEEN and split_of(f"{domain}|{draft.sql}", SHARES) != split:
            return None
        if not is_good(draft, world):
            return None
        dialect = rng.choice(DIALECTS[:2]) if self._dialect == "mixed" else self._dialect
        return Task(
            id=f"sql/{split}/{index}",
            split=split,
            prompt=rng.choice(choice.phrasings).format_map(draft.words),
            difficulty=choice.level,
            data={"domain": domain, "database_seed": database_seed, "dialect": dialect},
            gold=_gold(draft, run_steps(draft, world), dialect),
            tags=(choice.name, f"L{choice.level}"),
        )


def _gold(draft: Draft, steps: Sequence[str], dialect: str) -> Mapping[str, Any]:
    say = to_sqlite if dialect == "sqlite" else str
    gold = {"sql": say(draft.sql), "ordered": draft.ordered, "answer": "query"}
    gold |= {"tables": draft.tables, "columns": draft.columns}
    return gold | ({"steps": [say(step) for step in steps]} if steps else {})


def _choose_families(difficulty: int | Sequence[int] | None, names: Sequence[str] | None) -> list[list[Family]]:
    chosen = [FAMILIES[name] for name in _known("family", names, tuple(FAMILIES))]
    levels = sorted({choice.level for choice in FAMILIES.values()})
    wanted = _known("difficulty", (difficulty,) if isinstance(difficulty, int) else difficulty, tuple(levels))
    grouped = [[choice for choice in chosen if choice.level == level] for level in sorted(set(wanted))]
    if not any(grouped):
        raise UsageError(f"none of the families {list(names or ())!r} has difficulty {difficulty!r}")
    return [group for group in grouped if group]


def _known(what: str, wanted: Sequence[Any] | None, valid: tuple[Any, ...]) -> tuple[Any, ...]:
    if wanted is None:
        return valid
    if isinstance(wanted, str):
        wanted = (wanted,)
    unknown = [value for value in wanted if value not in valid]
    if unknown or not wanted:
        asked = repr(unknown[0]) if unknown else "(none given)"
        raise UsageError(f"unknown {what} {asked}; choose from: {', '.join(map(str, valid))}")
    return tuple(dict.fromkeys(wanted))
