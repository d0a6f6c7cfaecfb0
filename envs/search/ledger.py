"""The pages that an episode found, with their numbers and the texts shown of them, and the facts that these state.

A fact counts wherever it is read: on the page that the task names as evidence, on another page, or in a cut snippet.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.base.errors import ToolError
from agentgym.envs.search.answers import mentions
from agentgym.tools.index import Hit

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


_MAX_TOLD = 5


class Ledger:
    """The pages of one episode, numbered from 1 in the order of discovery."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._ids: list[str] = []
        self._titles: list[str] = []
        self._whole: set[str] = set()
        self._texts: dict[str, list[str]] = {}
        self._queries: set[str] = set()

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, hits: Sequence[Hit]) -> list[int]:
        """Number the pages that a search found; return their numbers."""
        for hit in hits:
            if hit.id not in self._numbers:
                self._ids.append(hit.id)
                self._titles.append(hit.title)
                self._numbers[hit.id] = len(self._ids)
        return [self._numbers[hit.id] for hit in hits]

    def is_redundant(self, query: str, hits: Sequence[Hit]) -> bool:
        """Whether a search repeats an earlier one or finds no new page. Call this before `add`."""
        words = " ".join(query.lower().split())
        repeated = words in self._queries
        self._queries.add(words)
        return repeated or all(hit.id in self._numbers for hit in hits)

    def show(self, page_id: str, text: str, *, whole: bool) -> None:
        """Record a text of a page that was shown, with its title; `whole` if it is not cut out of its context."""
        self._texts.setdefault(page_id, []).append(text)
        if whole:
            self._whole.add(page_id)

    def number_of(self, page_id: str) -> int | None:
        """Return the number of a page, or `None` if no search has found it."""
        return self._numbers.get(page_id)

    def find(self, name: str) -> str:
        """Return the id of a page, given its number (`3`, `[3]`) or exact title.

        Raises:
            ToolError: No page matches, or several do; the message lists the valid numbers.
        """
        reference = name.strip().removeprefix("[").removesuffix("]").strip()
        if reference.isdecimal() and len(reference) < 7 and 1 <= int(reference) <= len(self._ids):
            return self._ids[int(reference) - 1]
        titled = [i for i, title in enumerate(self._titles) if title.lower() == name.strip().lower()]
        if len(titled) == 1:
            return self._ids[titled[0]]
        if titled:
            numbers = ", ".join(str(i + 1) for i in titled[:_MAX_TOLD])
            raise ToolError(f"Several pages are called {name[:100]!r}; open one by its number: {numbers}.")
        numbers = f"1 to {len(self._ids)}" if self._ids else "none yet; search first"
        raise ToolError(
            f"There is no page {name[:100]!r}. Open a page by the number that a search gave it ({numbers})."
        )

    def recall(self, evidence: Collection[str], facts: Sequence[StatedFact]) -> float:
        """Return the share of `evidence` (page ids) that was shown, as pages or as facts; 0 without evidence."""
        texts = [text for page_texts in self._texts.values() for text in page_texts]
        stated = [page for page in evidence if are_all_stated([fact for fact in facts if fact.page == page], texts)]
        return len(self._whole.intersection(evidence).union(stated)) / len(set(evidence)) if evidence else 0.0

    def precision(self, cited: Collection[int], evidence: Collection[str], facts: Sequence[StatedFact]) -> float:
        """Return the share of the cited pages that were shown and are evidence or state a fact; 0 without any."""
        right = [page for page in self._whole.intersection(evidence) if page in self._numbers]
        right += [
            page
            for page, texts in self._texts.items()
            if page in self._numbers and any(fact.is_stated_in(text) for fact in facts for text in texts)
        ]
        return len({self._numbers[page] for page in right}.intersection(cited)) / len(set(cited)) if cited else 0.0
