"""A fictional encyclopedia: its facts, and its passages as documents.

A world depends only on its split, number, seed and size. Its names are invented. No name occurs in the worlds of two
splits, or in two worlds of one split whose numbers are close.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from random import Random
from typing import Any

from agentgym.base.choices import one_of
from agentgym.base.errors import TaskError, UsageError
from agentgym.tasks.search.building.events import add_events
from agentgym.tasks.search.building.organisations import add_organisations
from agentgym.tasks.search.building.people import add_people
from agentgym.tasks.search.building.places import add_places
from agentgym.tasks.search.building.works import add_works
from agentgym.tasks.search.building.world import Builder
from agentgym.tasks.search.entities import Entity
from agentgym.tasks.search.names import SPLITS, residue_of
from agentgym.tasks.search.notes import NotePage, NoteWriter
from agentgym.tasks.search.pages import SECTIONS, words_of
from agentgym.tools.index.base import Document

DEFAULT_PASSAGES = 10_000
_FEWEST_PASSAGES = 1_000
_PASSAGES_AT_SCALE_1 = 13_600
_WORLDS_KEPT = 4


class SearchWorld:
    """One encyclopedia.

    Args:
        split: `train`, `validation` or `test`.
        number: Index of the world within its split and seed.
        seed: Other seeds give other worlds.
        passages: Minimum number of passages; other sizes give other worlds.
    """

    def __init__(self, split: str, number: int = 0, seed: int = 0, passages: int = DEFAULT_PASSAGES):
        one_of("split", split, SPLITS)
        if passages < _FEWEST_PASSAGES:
            raise UsageError(f"a world has at least {_FEWEST_PASSAGES} passages, not {passages!r}")
        self.split, self.number, self.seed, self.passages = split, number, seed, passages
        self._name = f"world/{seed}/{split}/{number}/{passages}"
        scale = passages / _PASSAGES_AT_SCALE_1
        builder, self.notes = self._build(scale)
        while _articles(builder) + len(self.notes) < passages:
            scale *= 1.05
            builder, self.notes = self._build(scale)
        self._by_type = builder.by_type
        self.surnames = builder.bearers
        """People by surname."""

    def _build(self, scale: float) -> tuple[Builder, list[NotePage]]:
        builder = Builder(Random(self._name), residue_of(self.split, self.number, self.seed), scale)
        for add in (add_places, add_people, add_organisations, add_works, add_events):
            add(builder)
        return builder, NoteWriter(builder, Random(f"{self._name}/notes")).write()

    def of(self, *types: str) -> list[Entity]:
        """Return the entities of some types, or all."""
        return [entity for type_ in types or self._by_type for entity in self._by_type.get(type_, ())]

    @cached_property
    def names(self) -> frozenset[str]:
        """All names and aliases of entities."""
        return frozenset(name for entity in self.of() for name in (entity.name, *entity.aliases))

    @cached_property
    def documents(self) -> list[Document]:
        """All passages, articles first."""
        rng = Random(f"{self._name}/pages")
        return [*(passage for entity in self.of() for passage in _article(entity, rng)), *map(_page, self.notes)]


@lru_cache(maxsize=_WORLDS_KEPT)
def open_world(split: str, number: int = 0, seed: int = 0, passages: int = DEFAULT_PASSAGES) -> SearchWorld:
    """Return a world; the most recent ones are cached."""
    return SearchWorld(split, number, seed, passages)


def _articles(builder: Builder) -> int:
    """Return the number of passages in the articles of a world."""
    return sum(part.exists(entity) for entity in builder.of(*builder.by_type) for part in SECTIONS[entity.type])


def _article(entity: Entity, rng: Random) -> Iterator[Document]:
    words = words_of(entity)
    fields = {"kind": entity.kind.value, "type": entity.type}
    for item in SECTIONS[entity.type]:
        if item.exists(entity):
            yield Document(item.passage_id(entity), item.title(entity), item.write(entity, words, rng), fields)


def _page(note: NotePage) -> Document:
    return Document(note.id, note.title, note.text, {"kind": "note", "type": note.type})


def world_of(corpus: Mapping[str, Any]) -> SearchWorld:
    """Return the world that a corpus names. Raises `TaskError` if it names none."""
    try:
        split, number = str(corpus["split"]), int(corpus["world"])
        return open_world(split, number, int(corpus.get("seed", 0)), int(corpus.get("passages", DEFAULT_PASSAGES)))
    except (KeyError, TypeError, ValueError) as error:
        raise TaskError(f"no world: {dict(corpus)!r} needs 'world' (a number) and 'split' (a name)") from error


def documents_of(corpus: Mapping[str, Any]) -> Iterator[Document]:
    """Yield the documents of a corpus, such as `task.data["corpus"]`: a generated world, or a file of a data set."""
    if "file" in corpus:
        from agentgym.tasks.search.files import documents_of_file

        return documents_of_file(corpus)
    return iter(world_of(corpus).documents)
