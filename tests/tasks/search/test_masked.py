"""Masked spans of passages as tasks: salient, unique, and in the split of their passage."""

from __future__ import annotations

import re

import pytest

from agentgym.core.task import iterate
from agentgym.tasks.search import MaskedSpanTasks, documents_of
from agentgym.tasks.search.masked import salient_spans
from tests.refusals import sampled

CORPUS = {"world": 0, "split": "train", "seed": 0, "passages": 1_500}


@pytest.fixture(scope="module")
def source() -> MaskedSpanTasks:
    return MaskedSpanTasks(CORPUS)


def spans(text: str, title: str = "") -> list[str]:
    return [text[start:end] for start, end in salient_spans(title, text)]


def test_unrepeated_names_dates_and_numbers_are_salient():
    text = "In the end, Anna Varga's boat left Port Said on 3 May 1901 with 1,250 bags for Lake-on-Hill."
    assert spans(text) == ["Anna Varga", "Port Said", "3 May 1901", "1,250", "Lake-on-Hill"]
    assert spans("The town of Oss has 12 mills. Everybody in Oss knows Ede.", title="Mills (Ede)") == ["12"]


@sampled(30, 300)
def test_the_prompt_is_the_passage_with_only_its_spans_masked(count: int, source: MaskedSpanTasks):
    texts = {document.id: f"{document.title}: {document.text}" for document in documents_of(CORPUS)}
    for task in iterate(source, "train", count):
        masked = task.prompt.split("\n\n", 1)[1]
        filled = masked
        for number, span in enumerate(task.gold["spans"], start=1):
            assert masked.count(f"[MASK {number}]") == 1
            assert not re.search(rf"(?<![\w]){re.escape(span)}(?![\w])", masked)
            filled = filled.replace(f"[MASK {number}]", span)
        assert filled == texts[task.gold["evidence"][0]]
        assert task.difficulty == task.prompt.count("[MASK")
