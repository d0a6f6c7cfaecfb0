"""`MaskedSpanTasks`: passages of any corpus with masked names, dates and numbers, which searching recovers.

The task family of MaskSearch (retrieval-augmented mask prediction); its curriculum is the number of masks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Any

from agentgym.base.errors import TaskError, UsageError
from agentgym.core.task import SHARES, Task, check_split, parse_task_id, split_of
from agentgym.tasks.search.entities import MONTHS
from agentgym.tasks.search.questions import Feature
from agentgym.tasks.search.world import documents_of
from agentgym.tools.index.base import Document

_MOST_MASKS = 20
_QUERY_WORDS = 12
_MONTH = "|".join(MONTHS)
_NAME = r"[^\W\d_a-zß-öø-ÿ]\w+(?:['’](?!s\b)\w+)*"
_SPAN = re.compile(
    rf"\b\d{{1,2}} (?:{_MONTH}) \d{{3,4}}\b"
    rf"|\b(?:{_MONTH}) \d{{1,2}}, \d{{3,4}}\b"
    r"|\b\d[\d,.]*\d\b|\b\d\b"
    rf"|\b{_NAME}(?:[ -](?:(?:of|the|de|von|on|&)[ -])?{_NAME})*"
)


class MaskedSpanTasks:
    """Fill in the masks. Each task is a passage with some masks; the order of tasks depends on the seed.

    Args:
        documents: Documents, or the JSON that names a corpus for `documents_of`.
        corpus: The value of `task.data["corpus"]`; by default the name given as `documents`.
        masks: The numbers of masks, such as `(1, 2)`. A task's number of masks is its difficulty.
        seed: Other seeds mask other spans; the split of a passage never changes.
    """

    def __init__(
        self,
        documents: Mapping[str, Any] | Iterable[Document],
        corpus: Mapping[str, Any] | None = None,
        masks: int | Sequence[int] = (1, 2, 3, 4),
        seed: int = 0,
    ):
        self._masks = (masks,) if isinstance(masks, int) else tuple(sorted(set(masks)))
        if not self._masks or not all(1 <= number <= _MOST_MASKS for number in self._masks):
            raise UsageError(f"masks must be numbers from 1 to {_MOST_MASKS}, not {masks!r}")
        self._documents: list[Document] | None = None
        self._source: dict[str, Any] = {}
        if isinstance(documents, Mapping):
            self._source = {str(key): value for key, value in documents.items()}
        else:
            self._documents = list(documents)
        self._corpus = dict(corpus) if corpus is not None else self._source or None
        self._seed = seed

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(SHARES)

    def size(self, split: str) -> int:
        """Return the number of tasks of `split`."""
        return len(self._pairs[check_split(self, split)])

    def get(self, split: str, index: int) -> Task:
        """Return task number `index` of `split`."""
        size = self.size(split)
        if not 0 <= index < size:
            raise TaskError(f"split {split!r} has tasks 0 to {size - 1}, not {index}")
        document, number = self._pairs[split][index]
        return self._task(f"masked/{split}/{index}", split, document, number)

    def find(self, task_id: str) -> Task:
        """Return the task with an id such as `masked/train/17`."""
        return self.get(*parse_task_id(task_id, "masked", self.splits))

    @cached_property
    def _pairs(self) -> dict[str, list[tuple[Document, int]]]:
        """The tasks of each split: a passage, and the number of spans to mask."""
        documents = documents_of(self._source) if self._documents is None else self._documents
        pairs: dict[str, list[tuple[Document, int]]] = {split: [] for split in SHARES}
        for document in documents:
            if document.fields.get("kind") == "note":
                continue
            span_count = len(salient_spans(document.title, document.text))
            split = split_of(f"{document.title}\n{document.text}", SHARES)
            pairs[split] += [(document, number) for number in self._masks if number <= span_count]
        for split, tasks in pairs.items():
            Random(f"masked/{self._seed}/{split}").shuffle(tasks)
        return pairs

    def _task(self, task_id: str, split: str, document: Document, number: int) -> Task:
        rng = Random(f"masked/{self._seed}/{document.id}/{number}")
        positions = sorted(rng.sample(salient_spans(document.title, document.text), number))
        spans = [document.text[start:end] for start, end in positions]
        masked = _mask(document.text, positions)
        what = (
            "What does the mask hide?" if number == 1 else "What do the masks hide, in order, separated by semicolons?"
        )
        return Task(
            id=task_id,
            split=split,
            prompt=f"{what}\n\n{document.title}: {masked}",
            difficulty=number,
            data={} if self._corpus is None else {"corpus": self._corpus},
            gold=_gold(document, masked, spans),
            tags=("masked_span", f"L{number}", Feature.MASKED.value),
        )

    def __getstate__(self) -> dict[str, Any]:
        # The unpickling process can make the pairs again.
        return {name: value for name, value in self.__dict__.items() if name != "_pairs"}


def salient_spans(title: str, text: str) -> list[tuple[int, int]]:
    """Return the positions of names, dates and numbers that occur once in a text and not in its title.

    A word is not taken for a name if its capital may be due to the start of a sentence.
    """
    spans: list[tuple[int, int]] = []
    for match in _SPAN.finditer(text):
        start, span = match.start(), match.group()
        begins = start == 0 or text[:start].rstrip()[-1:] in (".", "!", "?", ":", '"')
        if begins and not span[0].isdigit() and " " not in span:
            continue
        if text.count(span) == 1 and span not in title:
            spans.append(match.span())
    return spans


def _mask(text: str, spans: Sequence[tuple[int, int]]) -> str:
    parts: list[str] = []
    reached = 0
    for number, (start, end) in enumerate(spans, start=1):
        parts += [text[reached:start], f"[MASK {number}]"]
        reached = end
    return "".join([*parts, text[reached:]])


def _gold(document: Document, masked: str, spans: list[str]) -> dict[str, Any]:
    words = re.sub(r"\[MASK \d+\]", " ", masked).split()[:_QUERY_WORDS]
    answer = "; ".join(spans)
    return {
        "answers": [answer],
        "spans": spans,
        "evidence": [document.id],
        "unanswerable": False,
        "hops": [{"query": " ".join([document.title, *words]), "document": document.id, "answer": answer}],
        "hop_count": 1,
        "family": "masked_span",
        "needs_search": True,
    }
