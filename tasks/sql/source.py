"""`SQLTasks`: the procedural source of SQL questions, with splits that share no question.

All splits of a domain share its databases, but no questions. The hash of a question's domain and gold SQL decides its
split, so no two splits ask the same query on the same domain, whatever the wording, the database, the engine or the
seed. `test_unseen` asks about domains that no other split uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, get_args

from agentgym.base.choices import one_of, some_of
from agentgym.base.errors import UsageError
from agentgym.core.task import Task
from agentgym.procedural import Families, ProceduralTasks, Wording, divide, must_belong
from agentgym.tasks.sql.database import ENGINE_KEY, database_for
from agentgym.tasks.sql.domains import HELD_OUT, domain_names
from agentgym.tasks.sql.families import basic, filtering, group, join, nested, relate, steps, window
from agentgym.tasks.sql.questions import FAMILIES, Family, SQLDraft, is_good, run_steps, to_sqlite, what_counts
from agentgym.tasks.sql.scene import SQLScene, open_world
from agentgym.tools.database import ENGINES
from agentgym.tools.database.schema import DatabaseSpec

FAMILY_MODULES = (basic, filtering, group, join, nested, relate, steps, window)
"""The modules that fill `FAMILIES`, easier ones first."""


class SQLTasks(ProceduralTasks[Family]):
    """Questions about generated databases, answered by a query. No split ends.

    Tasks take turns over the levels, and within a level over its families. If a family has no question for a split
    (with few domains, this can happen for questions without literals), another family of its level takes its turn.

    Args:
        difficulty: The level or levels, 1 to 5; `None` for all.
        families: Names of the question families; `None` for all (of the levels).
        domains: Names of the domains; `None` for all. Held-out domains serve `test_unseen` only.
        engine: The database engine, `duckdb` or `sqlite`; `mixed` chooses one at random for each task.
        databases_per_domain: How many databases each domain has, 1 to 1000.
        seed: Other seeds ask other questions about other databases; splits stay disjoint across seeds.
        wording: `"natural"`, as people ask, or `"plain"`, in the few words that a very small model can learn.
    """

    prefix = "sql"
    draws = 600
    more = "domains or families"

    def __init__(
        self,
        difficulty: int | Sequence[int] | None = None,
        families: Sequence[str] | None = None,
        domains: Sequence[str] | None = None,
        engine: str = "duckdb",
        databases_per_domain: int = 4,
        seed: int = 0,
        wording: Wording = "natural",
    ):
        self._wording: Wording = one_of("wording", wording, get_args(Wording))
        one_of("engine", engine, (*ENGINES, "mixed"))
        if not 1 <= databases_per_domain <= 1000:
            raise UsageError(f"databases_per_domain must be 1 to 1000, not {databases_per_domain!r}")
        self._domains = divide(some_of("domain", domains, domain_names()), HELD_OUT.__contains__)
        self._engine, self._databases = engine, databases_per_domain
        super().__init__(difficulty, families, seed)

    @classmethod
    def known(cls) -> Families[Family]:
        """Return all families by name."""
        return FAMILIES

    def divided(self, chosen: Sequence[Family]) -> dict[str, Sequence[Family]]:
        """Return the same families for every split: domains are held out, not families."""
        return dict.fromkeys(self._domains, chosen)

    def database(self, task: Task) -> DatabaseSpec:
        """Return the database of a task."""
        return database_for(task.data)

    def draw(self, family: Family, split: str, index: int, rng: Random) -> Task:
        """Draw a question. Raises `NoFit` if it is degenerate or belongs to another split."""
        domain = rng.choice(self._domains[split])
        database_seed = self._seed * 1000 + rng.randrange(self._databases)
        world = open_world(domain, database_seed)
        scene = SQLScene(world, rng)
        draft = family.draw(scene)
        must_belong(split, f"{domain}|{draft.sql}")
        scene.need(is_good(draft, world))
        engine = rng.choice(ENGINES) if self._engine == "mixed" else self._engine
        return family.task(
            self.id_of(split, index),
            split,
            f"{family.word(draft, rng, self._wording)} {what_counts(draft, world)}".rstrip(),
            data={"domain": domain, "database_seed": database_seed, ENGINE_KEY: engine},
            gold=_gold(draft, run_steps(draft, world), engine),
        )


def _gold(draft: SQLDraft, steps: Sequence[str], engine: str) -> Mapping[str, Any]:
    say = to_sqlite if engine == "sqlite" else str
    gold = {"sql": say(draft.sql), "ordered": draft.ordered, "answer": "query"}
    gold |= {"tables": draft.tables, "columns": draft.columns}
    return gold | ({"steps": [say(step) for step in steps]} if steps else {})
