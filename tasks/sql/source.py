"""`SQLTasks`: the procedural source of SQL questions, with splits that share no question.

Databases are shared by all splits of a domain; questions are not. The gold SQL of a question, together with its
domain, decides by hash which split it belongs to, so one query on one domain is never asked in two splits, whatever
the wording, the database, the dialect or the seed. `test_unseen` asks about domains that no other split has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from agentgym.choices import some_of
from agentgym.errors import UsageError
from agentgym.procedural import ProceduralTasks, choose_families
from agentgym.task import TEST, TRAIN, VALIDATION, Task, split_of
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


class SQLTasks(ProceduralTasks[Family]):
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

    prefix = "sql"
    draws = 600
    more = "domains or families"

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
        super().__init__(seed)
        self._levels = choose_families(FAMILIES, difficulty, families)
        chosen = some_of("domain", domains, domain_names())
        seen = tuple(name for name in chosen if name not in HELD_OUT)
        unseen = tuple(name for name in chosen if name in HELD_OUT)
        self._domains = dict.fromkeys(SHARES, seen) if seen else {}
        if unseen:
            self._domains[TEST_UNSEEN] = unseen
        self._dialect, self._databases = dialect, databases_per_domain

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self._domains)

    def levels(self, split: str) -> list[list[str]]:
        """Return the names of the families, by level."""
        return self._levels

    def family(self, name: str) -> Family:
        """Return a family."""
        return FAMILIES[name]

    def database(self, task: Task) -> DatabaseSpec:
        """Return the database that `task` asks about."""
        return database_for(task.data)

    def draw(self, family: Family, split: str, index: int, rng: Random) -> Task | None:
        """Draw a question; `None` if it is degenerate or belongs to another split."""
        domain = rng.choice(self._domains[split])
        database_seed = self._seed * 1000 + rng.randrange(self._databases)
        world = open_world(domain, database_seed)
        try:
            draft = family.draw(Scene(world, rng))
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
            prompt=rng.choice(family.phrasings).format_map(draft.words),
            difficulty=family.level,
            data={"domain": domain, "database_seed": database_seed, "dialect": dialect},
            gold=_gold(draft, run_steps(draft, world), dialect),
            tags=(family.name, f"L{family.level}"),
        )


def _gold(draft: Draft, steps: Sequence[str], dialect: str) -> Mapping[str, Any]:
    say = to_sqlite if dialect == "sqlite" else str
    gold = {"sql": say(draft.sql), "ordered": draft.ordered, "answer": "query"}
    gold |= {"tables": draft.tables, "columns": draft.columns}
    return gold | ({"steps": [say(step) for step in steps]} if steps else {})
