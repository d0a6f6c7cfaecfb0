"""Task families: each draws tasks on one site, and writes down their solution as SQL and as steps in a browser."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from agentgym.errors import TaskError, UsageError

Step = Mapping[str, Any]
"""One step of a plan, such as `{"do": "click", "role": "link", "name": "Cart"}`; see `tasks/web/plan.py`."""
Change = tuple[str, Sequence[Any]]
IMPOSSIBLE = "impossible"
"""The answer to a task that cannot be done."""
_T = TypeVar("_T")


class NoFit(Exception):
    """A family found nothing to ask on this site; it is tried again on another one."""


@dataclass(frozen=True)
class Draft:
    """One drawn task. `words` fill the family's phrasing in."""

    plan: Sequence[Step]
    words: Mapping[str, Any] = field(default_factory=dict)
    effect: Sequence[Change] = ()
    """SQL that leads from the initial database to the one that is asked for; none if nothing may change."""
    answer: str | None = None
    checks: Sequence[Mapping[str, str]] = ()
    start: str = "/"
    """The page that the episode begins on."""


class Scene:
    """What a family draws from: random numbers, and the site's initial database to read."""

    def __init__(self, db: sqlite3.Connection, rng: Random):
        self._db, self.rng = db, rng
        self.now = str(self.value("SELECT now FROM clock"))

    @property
    def today(self) -> str:
        """The day of the site's clock."""
        return self.now[:10]

    def rows(self, sql: str, *params: Any) -> list[sqlite3.Row]:
        """Return all rows of a query."""
        return self._db.execute(sql, params).fetchall()

    def value(self, sql: str, *params: Any) -> Any:
        """Return the first column of the first row. Raises `NoFit` if there is none."""
        return self.one(sql, *params)[0]

    def one(self, sql: str, *params: Any) -> sqlite3.Row:
        """Return the first row of a query. Raises `NoFit` if there is none."""
        found = self.rows(sql, *params)
        if not found:
            raise NoFit
        return found[0]

    def only(self, sql: str, *params: Any) -> sqlite3.Row:
        """Return the one row of a query. Raises `NoFit` unless there is exactly one: what a prompt names is unique."""
        found = self.rows(sql, *params)
        if len(found) != 1:
            raise NoFit
        return found[0]

    def pick(self, sql: str, *params: Any) -> sqlite3.Row:
        """Return one row of a query by chance. Raises `NoFit` if there is none."""
        return self.choice(self.rows(sql, *params))

    def choice(self, items: Sequence[_T]) -> _T:
        """Return one item by chance. Raises `NoFit` if there is none."""
        if not items:
            raise NoFit
        return self.rng.choice(items)

    def need(self, condition: object) -> None:
        """Raise `NoFit` unless the condition holds."""
        if not condition:
            raise NoFit


@dataclass(frozen=True)
class Family:
    """A kind of task. `draw` may raise `NoFit`."""

    name: str
    """Site and kind: `shop.buy`."""
    site: str
    level: int
    """Difficulty, 1 to 5."""
    phrasings: tuple[str, ...]
    draw: Callable[[Scene], Draft]
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the site is built with for this family."""


FAMILIES: dict[str, Family] = {}
"""All families by name, filled by `family` as their modules are imported."""


def family(
    name: str, level: int, *phrasings: str, options: Mapping[str, Any] | None = None
) -> Callable[[Callable[[Scene], Draft]], Callable[[Scene], Draft]]:
    """Register the decorated function as the family `site.kind`.

    Args:
        name: The site's name, a dot, and the kind of task.
        level: Difficulty, 1 to 5.
        phrasings: Prompts with `{words}` to fill in, at least two; one is drawn for each task.
        options: Options of the site.
    """
    if len(phrasings) < 2 or not 1 <= level <= 5 or name in FAMILIES:
        raise UsageError(f"family {name!r} needs a name of its own, a level from 1 to 5 and two or more phrasings")

    def register(draw: Callable[[Scene], Draft]) -> Callable[[Scene], Draft]:
        FAMILIES[name] = Family(name, name.partition(".")[0], level, phrasings, draw, options or {})
        return draw

    return register


def gold_of(draft: Draft, prompt: str) -> dict[str, Any]:
    """Return what a task's grader needs. Raises `TaskError` for a draft that nobody could be graded on."""
    if not draft.plan or (not draft.effect and draft.answer is None):
        raise TaskError(f"a web task needs a plan and an effect or an answer: {prompt!r}")
    return {
        "effect": [[sql, list(params)] for sql, params in draft.effect],
        "answer": draft.answer,
        "checks": [dict(check) for check in draft.checks],
        "plan": [dict(step) for step in draft.plan],
    }
