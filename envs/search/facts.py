"""The facts that an answer rests on, and the texts that state them.

A fact counts wherever it is read: on the page that the task names as evidence, on another page, or in a cut snippet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.envs.search.answers import mentions

_SUBJECT = re.compile(r"[^:(]+")
"""The entity that the title of a page names: `Port Veld` in `Port Veld: Economy` and in `Port Veld (town)`."""


@dataclass(frozen=True)
class Fact:
    """A statement about an entity."""

    page: str
    """Id of the evidence page that states it."""
    subject: str
    values: tuple[str, ...]
    """Equivalent texts, any of which states the fact."""

    def is_stated_in(self, text: str) -> bool:
        """Whether a text with its title names the subject and the value."""
        return mentions(text, self.values) and mentions(text, [self.subject])


def facts_of(gold: Mapping[str, Any], title_of: Callable[[str], str | None]) -> list[Fact]:
    """Return the facts of a task.

    A hop without a value of its own, as in public data sets, states an accepted answer, unless it leads to a page whose
    title is the answer.

    Args:
        gold: The task's gold.
        title_of: Returns the title of a page by its id, or `None` if it is not known.
    """
    facts: list[Fact] = []
    for hop in gold.get("hops", ()):
        page = hop.get("document")
        title = title_of(page) if page else None
        values = (hop["answer"],) if hop.get("answer") else tuple(gold["answers"])
        subject = _SUBJECT.match(title)[0].strip() if title and _SUBJECT.match(title) else ""
        if page and subject and values and not mentions(subject, values):
            facts.append(Fact(page, subject, values))
    return facts


def are_all_stated(facts: Sequence[Fact], texts: Iterable[str]) -> bool:
    """Whether there are facts, and each is stated in one of the texts."""
    texts = list(texts)
    return bool(facts) and all(any(map(fact.is_stated_in, texts)) for fact in facts)
