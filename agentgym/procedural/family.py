"""A family: one kind of task, which draws drafts and words them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Generic, Literal, Protocol, TypeVar

from agentgym.errors import UsageError
from agentgym.task import Task

Wording = Literal["natural", "plain"]
"""Wordings of prompts: natural language, or a small vocabulary for very small models."""


class Draft(Protocol):
    """A problem that a family has drawn but not yet worded. Each source has its own draft class."""

    @property
    def words(self) -> Mapping[str, Any]:
        """Values for the fields of the phrasings."""
        ...


SceneT = TypeVar("SceneT")
DraftT = TypeVar("DraftT", bound=Draft)


@dataclass(frozen=True)
class Family(Generic[SceneT, DraftT]):
    """A kind of task. Subclass it to add attributes, such as the web site of the tasks."""

    name: str
    """Users select families by name."""
    level: int
    """Difficulty of the tasks, from 1 (easy) upwards."""
    phrasings: tuple[str, ...]
    """Prompts with `{fields}` for the words of a draft. Each task uses one prompt."""
    draw: Callable[[SceneT], DraftT]
    """Draws a problem from a scene. It may raise `NoFit`."""
    plain: tuple[str, ...] = field(default=(), kw_only=True)
    """Prompts in a small vocabulary, for models too small for `phrasings`; by default `phrasings`."""
    held_out: bool = field(default=False, kw_only=True)
    """Whether tasks of this family occur only in the split `test_unseen`."""

    def __post_init__(self):
        if self.level < 1 or not self.phrasings:
            raise UsageError(f"family {self.name!r} needs a level of at least 1 and at least one phrasing")

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of all tasks of this family."""
        return (self.name, f"L{self.level}")

    def word(self, draft: DraftT, rng: Random, wording: Wording = "natural") -> str:
        """Return the draft's text in a random phrasing. Draw it last: then the wording does not change the problem."""
        return rng.choice(self.worded(wording)).format_map(draft.words)

    def worded(self, wording: Wording) -> tuple[str, ...]:
        """Return the phrasings of a wording."""
        return self.plain if wording == "plain" and self.plain else self.phrasings

    def task(
        self,
        task_id: str,
        split: str,
        prompt: str,
        *,
        data: Mapping[str, Any] | None = None,
        gold: Mapping[str, Any] | None = None,
        tags: Iterable[str] = (),
    ) -> Task:
        """Return a task with this family's difficulty and tags; `tags` are added for this task only."""
        return Task(
            id=task_id,
            split=split,
            prompt=prompt,
            difficulty=self.level,
            data=data or {},
            gold=gold or {},
            tags=(*self.tags, *tags),
        )
