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
_QUALIFIED = re.compile(r"the (?:[a-z]+ )+(?=[^\W\da-z_])")
"""Words before a name, as in `the painter Ana Orn`, that other pages may leave out."""


@dataclass(frozen=True)
class StatedFact:
    """A statement about an entity."""

    page: str
    """Id of the evidence page that states it."""
    subject: str
    values: tuple[str, ...]
    """Equivalent texts; each one states the fact."""

    def is_stated_in(self, text: str) -> bool:
        """Whether a text with its title names the subject and the value."""
        return mentions(text, self.values) and mentions(text, [self.subject])


TitleOf = Callable[[str], str | None]
"""Returns the title of a page by its id, or `None` if it is not known."""


def facts_of(gold: Mapping[str, Any], title_of: TitleOf) -> list[StatedFact]:
    """Return the facts of a task: the value of each hop, or an accepted answer if a hop has none (public data sets)."""
    facts: list[StatedFact] = []
    for hop in gold.get("hops", ()):
        value = hop.get("answer")
        values = tuple(dict.fromkeys((value, _QUALIFIED.sub("", value)))) if value else tuple(gold["answers"])
        facts += _about(hop.get("document"), values, title_of)
    return facts


def answers_on(pages: Iterable[str], answers: Sequence[str], title_of: TitleOf) -> list[StatedFact]:
    """Return the facts that evidence pages state by naming one of `answers`, such as one member of a list."""
    return [fact for page in pages for fact in _about(page, tuple(answers), title_of)]


def _about(page: str | None, values: tuple[str, ...], title_of: TitleOf) -> list[StatedFact]:
    """Return the fact that the entity of a page has a value; none for a page whose title is the value."""
    subject = _SUBJECT.match(title_of(page) or "") if page and values else None
    name = subject[0].strip() if subject else ""
    return [StatedFact(page, name, values)] if page and name and not mentions(name, values) else []


def are_all_stated(facts: Sequence[StatedFact], texts: Iterable[str]) -> bool:
    """Whether there are facts, and each is stated in one of the texts."""
    texts = list(texts)
    return bool(facts) and all(any(map(fact.is_stated_in, texts)) for fact in facts)
