"""`SearchTasks`: questions about generated encyclopedias, with splits that share no name and so no fact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from agentgym.errors import TaskError, UsageError
from agentgym.task import Task, check_split
from agentgym.tasks.search import (
    families_chain,
    families_compare,
    families_count,
    families_given,
    families_lookup,
    families_time,
    families_trap,
)
from agentgym.tasks.search.entities import capitalized
from agentgym.tasks.search.names import SPLITS
from agentgym.tasks.search.questions import FAMILIES, Draft, Family, Feature, NoFit
from agentgym.tasks.search.scene import Scene
from agentgym.tasks.search.world import DEFAULT_PASSAGES, open_world

FAMILY_MODULES = (
    families_lookup,
    families_chain,
    families_compare,
    families_count,
    families_time,
    families_trap,
    families_given,
)
"""The modules that fill `FAMILIES`."""
_NAMES_ITS_ANSWER = (Feature.COMPARISON, Feature.NO_SEARCH)
_DRAWS = 400
"""Draws of one family before another one of its level takes its place."""


class SearchTasks:
    """Questions whose answers are found by searching a generated encyclopedia. Every split is without end.

    Tasks go round over the levels, and within a level over its families. After `questions_per_world` of them comes
    another world, with other names: no split has a name of another split's.

    Args:
        difficulty: Level or levels to ask, 1 to 5; `None` for all.
        families: Names of the question families to ask; `None` for all (of the levels).
        passages: The fewest passages of a world, from 1,000.
        questions_per_world: How many questions in a row are about one world.
        worlds: How many worlds a split has, used in turn; `None` for a new one every time (each is made when needed).
        seed: Other seeds make other worlds and questions; splits stay disjoint across seeds.
    """

    def __init__(
        self,
        difficulty: int | Sequence[int] | None = None,
        families: Sequence[str] | None = None,
        passages: int = DEFAULT_PASSAGES,
        questions_per_world: int = 500,
        worlds: int | None = 4,
        seed: int = 0,
    ):
        if questions_per_world < 1 or (worlds is not None and worlds < 1):
            raise UsageError(f"a split needs a world and a question: {questions_per_world=}, {worlds=}")
        self._levels = _choose_families(difficulty, families)
        self._passages, self._per_world, self._worlds, self._seed = passages, questions_per_world, worlds, seed

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return SPLITS

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
        rng = Random(f"search/{self._seed}/{split}/{index}")
        for name in (*families[first:], *families[:first]):
            for _ in range(_DRAWS):
                task = self._draw(FAMILIES[name], split, index, rng)
                if task is not None:
                    return task
        raise TaskError(
            f"found no question of {', '.join(families)} in world {self._world(index)}; allow more passages or families"
        )

    def find(self, task_id: str) -> Task:
        """Return the task with an id such as `search/train/17`."""
        source, split, index = [*task_id.split("/"), "", ""][:3]
        if source != "search" or split not in SPLITS or task_id != f"search/{split}/{index}" or not index.isdecimal():
            raise TaskError(f"no task {task_id!r}; ids look like search/{SPLITS[0]}/0")
        return self.get(split, int(index))

    def _world(self, index: int) -> int:
        number = index // self._per_world
        return number if self._worlds is None else number % self._worlds

    def _draw(self, choice: Family, split: str, index: int, rng: Random) -> Task | None:
        number = self._world(index)
        scene = Scene(open_world(split, number, self._seed, self._passages), rng)
        try:
            draft = choice.draw(scene)
        except NoFit:
            return None
        prompt = capitalized(rng.choice(choice.phrasings).format_map(draft.words))
        if choice.feature not in _NAMES_ITS_ANSWER and _gives_away(prompt, draft.answers):
            return None
        return Task(
            id=f"search/{split}/{index}",
            split=split,
            prompt=prompt,
            difficulty=choice.level,
            data={
                "corpus": {"world": number, "split": split, "seed": self._seed, "passages": self._passages},
                # Questions that give choices name the right one too.
                "named": [str(word) for word in draft.words.values()],
            },
            gold=gold_of(choice.name, draft, scene.hops, needs_search=choice.feature is not Feature.NO_SEARCH),
            tags=(choice.name, f"L{choice.level}", choice.feature.value, f"hops_{len(scene.hops)}"),
        )


def _gives_away(prompt: str, answers: Sequence[str]) -> bool:
    """Whether the answer, other than a number, happens to stand in the question."""
    return any(not answer.isdecimal() and answer.lower() in prompt.lower() for answer in answers[:1])


def gold_of(
    family: str, draft: Draft, hops: Sequence[Mapping[str, str]], needs_search: bool = True
) -> Mapping[str, Any]:
    """Return the gold of a drafted question."""
    return {
        "answers": draft.answers,
        "evidence": list(dict.fromkeys(hop["document"] for hop in hops)),
        "unanswerable": not draft.answers,
        "hops": [dict(hop) for hop in hops],
        "hop_count": len(hops),
        "family": family,
        "needs_search": needs_search,
        **draft.extra,
    }


def _choose_families(difficulty: int | Sequence[int] | None, names: Sequence[str] | None) -> list[list[str]]:
    """Return the names of the chosen families, by level. Names, because functions do not pickle."""
    chosen = [FAMILIES[name] for name in _known("family", names, tuple(FAMILIES))]
    levels = sorted({choice.level for choice in FAMILIES.values()})
    wanted = _known("difficulty", (difficulty,) if isinstance(difficulty, int) else difficulty, tuple(levels))
    grouped = [[choice.name for choice in chosen if choice.level == level] for level in sorted(set(wanted))]
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
