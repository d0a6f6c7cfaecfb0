"""How pages are written: sections of sentences, each in several wordings that state the same facts.

A sentence appears where the entity has every fact that it speaks of, so the templates also say which section states
which relation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from string import Formatter
from typing import Any

from agentgym.tasks.data_files import read_data
from agentgym.tasks.search.entities import Entity, EntityKind, capitalized, say

_GRAMMAR = {"name", "surname", "he", "his", "him", "He", "His", "is", "a_occupation", "a_genre"}
_FILLERS = (
    "The sources agree on this.",
    "Further reading is listed in the appendix.",
    "A longer account can be found in the supplement.",
    "This was checked against the archives.",
    "Older handbooks treat the matter in more detail.",
    "There is a good map of this in the atlas volume.",
)
_PRONOUNS = {
    "man": {"he": "he", "his": "his", "him": "him", "He": "He", "His": "His"},
    "woman": {"he": "she", "his": "her", "him": "her", "He": "She", "His": "Her"},
}


@dataclass(frozen=True)
class Sentence:
    """One statement in several wordings."""

    wordings: tuple[str, ...]

    @cached_property
    def relations(self) -> frozenset[str]:
        """The facts that every wording states."""
        named = (placeholders(wording) - _GRAMMAR for wording in self.wordings)
        return frozenset.intersection(*map(frozenset, named))


@dataclass(frozen=True)
class Section:
    """A part of an entity's article that is a passage of its own."""

    key: str
    """Last part of the passage's id."""
    heading: str
    """The part after the entity's name in the passage's title; empty for the lead."""
    sentences: tuple[Sentence, ...]
    fillers: tuple[str, ...] = ()
    """Sentences without facts. Half of the passages have one of these (or of `_FILLERS`), and all short ones do."""

    def passage_id(self, entity: Entity) -> str:
        """Return the id of this section of an entity's article."""
        return f"{entity.id}-{self.key}"

    def title(self, entity: Entity) -> str:
        """Return the title of this section of an entity's article."""
        return f"{entity.title}: {self.heading}" if self.heading else entity.title

    def exists(self, entity: Entity) -> bool:
        """Whether the section has any content."""
        return any(sentence.relations <= entity.facts.keys() for sentence in self.sentences)

    def write(self, entity: Entity, words: Mapping[str, str], rng: Random) -> str:
        """Return the text of this section of an entity's article."""
        stated = entity.facts.keys()
        sentences = [pick(rng, item.wordings).format_map(words) for item in self.sentences if item.relations <= stated]
        if len(sentences) == 1 or rng.random() < 0.5:
            sentences.append(pick(rng, self.fillers or _FILLERS).format_map(words))
        return " ".join(map(capitalized, sentences))


def pick(rng: Random, items: tuple[str, ...]) -> str:
    """Return a random item."""
    return items[int(rng.random() * len(items))]


def placeholders(wording: str) -> set[str]:
    """Return the names in braces."""
    return {name for _, name, _, _ in Formatter().parse(wording) if name}


def words_of(entity: Entity) -> dict[str, str]:
    """Return the values of the placeholders on the pages of an entity."""
    words = {relation: say(value) for relation, value in entity.facts.items()}
    words["name"] = entity.name
    if entity.kind is EntityKind.PERSON:
        words |= _PRONOUNS[entity.facts["gender"]]
        words["surname"] = entity.name.split()[-1]
        words["a_occupation"] = with_article(entity.facts["occupation"])
        words["is"] = "was" if "death_date" in entity.facts else "is"
    if "genre" in entity.facts:
        words["a_genre"] = with_article(entity.facts["genre"])
    return words


def with_article(noun: str) -> str:
    """Return a noun after `a` or `an`."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _section(spec: Mapping[str, Any]) -> Section:
    sentences = tuple(Sentence(tuple(wordings)) for wordings in spec["sentences"])
    return Section(spec["key"], spec.get("heading", ""), sentences, tuple(spec.get("fillers", ())))


SECTIONS = {kind: tuple(map(_section, sections)) for kind, sections in read_data("search", "pages").items()}
"""The sections of an article, by the type of the entity."""


def _by_relation(sections: Iterable[Section]) -> dict[str, Section]:
    """Return the first section that states each relation."""
    by_relation: dict[str, Section] = {}
    for item in sections:
        for sentence in item.sentences:
            for relation in sentence.relations:
                by_relation.setdefault(relation, item)
    return by_relation


_STATED_IN = {kind: _by_relation(sections) for kind, sections in SECTIONS.items()}


def section_for(entity: Entity, relation: str) -> Section:
    """Return the section of an entity's article that states a relation, or that would state it.

    The lead stands in for a section that the article lacks.
    """
    section = _STATED_IN[entity.type].get(relation)
    return section if section is not None and section.exists(entity) else SECTIONS[entity.type][0]
