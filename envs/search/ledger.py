"""The pages that the searches of an episode found, with their numbers and the texts that were shown of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agentgym.base.errors import ToolError
from agentgym.envs.search.facts import StatedFact, are_all_stated
from agentgym.tools.index import Hit

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
