"""A relation of an entity: how it is named, asked for and searched; and the relations that several types share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Relation:
    """A relation with one value.

    Args:
        name: Key in the facts of an entity.
        noun: The value in words, with `{x}` for the entity; questions about the value call it by this.
        query: Words for it in the section that states it.
        asks: Questions for the value, with `{x}` for the entity.
    """

    name: str
    noun: str
    query: str
    asks: tuple[str, ...]


def table(*rows: tuple[str, ...]) -> dict[str, Relation]:
    """Return relations by name, each from its name, noun, query words and questions."""
    return {name: Relation(name, noun, query, tuple(asks)) for name, noun, query, *asks in rows}


FOUNDED = (
    "founded", "the year in which {x} was founded", "founded history",
    "In which year was {x} founded?", "When was {x} founded? Give the year.", "What is the founding year of {x}?",
)  # fmt: skip
FOUNDER = (
    "founder", "the founder of {x}", "founder founded",
    "Who founded {x}?", "Who was the founder of {x}?", "By whom was {x} founded?",
)  # fmt: skip
PRIZE = (
    "prize", "the prize that {x} won", "prize won",
    "Which prize did {x} win?", "What is the name of the prize that {x} won?", "Which award went to {x}?",
)  # fmt: skip
