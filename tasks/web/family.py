"""Task families: each draws tasks on one site, and gives their solution both as SQL and as browser steps."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from agentgym import procedural
from agentgym.base.errors import TaskError, UsageError
from agentgym.procedural import Families, NoFit, Wording

Step = Mapping[str, Any]
"""One step of a plan, such as `{"do": "click", "role": "link", "name": "Cart"}`; see `tasks/web/plan.py`."""
Change = tuple[str, Sequence[Any]]
IMPOSSIBLE = "impossible"
"""The right answer to an impossible task."""
_ENDED_TWICE = re.compile(r"(?<=\.”)\.(?=\s|$)")
"""The full stop of a sentence that ends with a quoted one."""


@dataclass(frozen=True)
class WebDraft:
    """A drawn task without its wording."""

    plan: Sequence[Step]
    words: Mapping[str, Any] = field(default_factory=dict)
    effect: Sequence[Change] = ()
    """SQL that turns the initial database into the expected one; empty if nothing may change."""
    answer: str | None = None
    checks: Sequence[Mapping[str, str]] = ()
    start: str = "/"
    """The first page of the episode."""


class WebScene(procedural.Scene):
    """The source of a family's draws: random numbers and the initial database of the site."""

    def __init__(self, db: sqlite3.Connection, rng: Random):
        super().__init__(rng)
        self._db = db
        self.now = str(self.value("SELECT now FROM clock"))

    @property
    def today(self) -> str:
        """The date on the site's clock."""
        return self.now[:10]

    def rows(self, sql: str, *params: Any) -> list[sqlite3.Row]:
        """Return all rows of a query."""
        return self._db.execute(sql, params).fetchall()

    def value(self, sql: str, *params: Any) -> Any:
        """Return the first column of the first row. Raises `NoFit` without rows."""
        return self.one(sql, *params)[0]

    def one(self, sql: str, *params: Any) -> sqlite3.Row:
        """Return the first row of a query. Raises `NoFit` without rows."""
        rows = self.rows(sql, *params)
        if not rows:
            raise NoFit
        return rows[0]

    def only(self, sql: str, *params: Any) -> sqlite3.Row:
        """Return the only row of a query. Raises `NoFit` unless it is unique, as prompts require."""
        rows = self.rows(sql, *params)
        if len(rows) != 1:
            raise NoFit
        return rows[0]

    def pick(self, sql: str, *params: Any) -> sqlite3.Row:
        """Return a random row of a query. Raises `NoFit` without rows."""
        return self.choice(self.rows(sql, *params))


@dataclass(frozen=True)
class WebFamily(procedural.Family[WebScene, WebDraft]):
    """A kind of task on one site. Its name is that of the site, a dot, and the kind: `shop.order`."""

    options: Mapping[str, Any]
    """Options that the site is built with."""

    @property
    def site(self) -> str:
        """Name of the site."""
        return self.name.partition(".")[0]

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of all tasks of this family."""
        return (*super().tags, self.site)

    def word(self, draft: WebDraft, rng: Random, wording: Wording = "natural") -> str:
        """Return the draft's text in a random phrasing. A quoted sentence at its end gets no second full stop."""
        return ended_once(super().word(draft, rng, wording))


FAMILIES: Families[WebFamily] = Families(WebFamily)
"""All families by name, filled by `family` when their modules are imported."""


def ended_once(text: str) -> str:
    """Return a prompt without the full stop after a quoted text that has one of its own."""
    return _ENDED_TWICE.sub("", text)


def family(
    name: str, level: int, *phrasings: str, options: Mapping[str, Any] | None = None
) -> Callable[[Callable[[WebScene], WebDraft]], Callable[[WebScene], WebDraft]]:
    """Return a decorator that registers a function that draws tasks as the family `site.kind`.

    Args:
        name: The name of the site, a dot, and the kind of task.
        level: Difficulty, 1 to 5.
        phrasings: Prompts with `{words}` to fill in, at least two; each task uses one of them.
        options: Options of the site.
    """
    if len(phrasings) < 2 or level > 5:
        raise UsageError(f"family {name!r} needs two or more phrasings and a level of 5 or less")
    return FAMILIES.register(level, *phrasings, name=name, options=options or {})


def gold_of(draft: WebDraft, prompt: str) -> dict[str, Any]:
    """Return the grader's input for a task. Raises `TaskError` for a draft that the grader could not judge."""
    if not draft.plan or (not draft.effect and draft.answer is None):
        raise TaskError(f"a web task needs a plan and an effect or an answer: {prompt!r}")
    return {
        "effect": [[sql, list(params)] for sql, params in draft.effect],
        "answer": draft.answer,
        "checks": [dict(check) for check in draft.checks],
        "plan": [dict(step) for step in draft.plan],
    }
