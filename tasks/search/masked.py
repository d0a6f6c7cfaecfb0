"""`MaskedSpanTasks`: passages of any corpus with names, dates and numbers masked, to be found again by searching.

The task family of MaskSearch (retrieval-augmented mask prediction); its curriculum is the number of masks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Any

from agentgym.errors import TaskError, UsageError
from agentgym.task import TEST, TRAIN, VALIDATION, Task, check_split, split_of
from agentgym.tasks.search.corpus import documents_of
from agentgym.tasks.search.entities import MONTHS
from agentgym.tasks.search.questions import Feature
from agentgym.tools.index.base import Document

SHARES = {TRAIN: 0.8, VALIDATION: 0.1, TEST: 0.1}
"""Which part of the passages goes to which split."""
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
    """Fill in what was masked. A task is a passage and a number of masks, in an order that depends on the seed.

    Args:
        documents: Documents, or the JSON that names a corpus for `documents_of`.
        corpus: What `task.data["corpus"]` says; by default the name given as `documents`.
        masks: Numbers of masks to ask for, such as `(1, 2)`; also the difficulty of a task.
        seed: Other seeds mask other spans; a passage's split is always the same.
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
        source, split, index = [*task_id.split("/"), "", ""][:3]
        if source != "masked" or split not in SHARES or task_id != f"masked/{split}/{index}" or not index.isdecimal():
            raise TaskError(f"no task {task_id!r}; ids look like masked/{TRAIN}/0")
        return self.get(split, int(index))

    @cached_property
    def _pairs(self) -> dict[str, list[tuple[Document, int]]]:
        """The tasks of each split: a passage and how many of its spans are masked."""
        documents = documents_of(self._source) if self._documents is None else self._documents
        pairs: dict[str, list[tuple[Document, int]]] = {split: [] for split in SHARES}
        for document in documents:
            if document.fields.get("kind") == "note":
                continue
            found = len(salient_spans(document.title, document.text))
            split = split_of(f"{document.title}\n{document.text}", SHARES)
            pairs[split] += [(document, number) for number in self._masks if number <= found]
        for split, tasks in pairs.items():
            Random(f"masked/{self._seed}/{split}").shuffle(tasks)
        return pairs

    def _task(self, task_id: str, split: str, document: Document, number: int) -> Task:
        rng = Random(f"masked/{self._seed}/{document.id}/{number}")
        chosen = sorted(rng.sample(salient_spans(document.title, document.text), number))
        spans = [document.text[start:end] for start, end in chosen]
        masked = _mask(document.text, chosen)
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
        # What can be read again need not travel.
        return {name: value for name, value in self.__dict__.items() if name != "_pairs"}


def salient_spans(title: str, text: str) -> list[tuple[int, int]]:
    """Return where names, dates and numbers stand in a text that occur once and are not in its title.

    A capital alone at the start of a sentence makes no name.
    """
    found: list[tuple[int, int]] = []
    for match in _SPAN.finditer(text):
        start, span = match.start(), match.group()
        begins = start == 0 or text[:start].rstrip()[-1:] in (".", "!", "?", ":", '"')
        if begins and not span[0].isdigit() and " " not in span:
            continue
        if text.count(span) == 1 and span not in title:
            found.append(match.span())
    return found


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
