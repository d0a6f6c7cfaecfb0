from __future__ import annotations

import pickle
import re

import pytest

from agentgym.errors import TaskError, UsageError
from agentgym.task import iterate
from agentgym.tasks.search import MaskedSpanTasks, documents_of
from agentgym.tasks.search.masked import salient_spans
from agentgym.tools.index import Document

CORPUS = {"world": 0, "split": "train", "seed": 0, "passages": 1_500}


@pytest.fixture(scope="module")
def source() -> MaskedSpanTasks:
    return MaskedSpanTasks(CORPUS)


def spans(text: str, title: str = "") -> list[str]:
    return [text[start:end] for start, end in salient_spans(title, text)]


def test_names_dates_and_numbers_are_salient():
    text = "In the end, Anna Varga's boat left Port Said on 3 May 1901 with 1,250 bags for Lake-on-Hill."
    assert spans(text) == ["Anna Varga", "Port Said", "3 May 1901", "1,250", "Lake-on-Hill"]


def test_what_the_title_or_another_place_tells_is_not_salient():
    assert spans("The town of Oss has 12 mills. Everybody in Oss knows Ede.", title="Mills (Ede)") == ["12"]


def test_filling_in_the_spans_gives_the_passage_back(source: MaskedSpanTasks):
    texts = {document.id: f"{document.title}: {document.text}" for document in documents_of(CORPUS)}
    for task in iterate(source, "train", 300):
        filled = task.prompt.split("\n\n", 1)[1]
        for number, span in enumerate(task.gold["spans"], start=1):
            assert filled.count(f"[MASK {number}]") == 1
            filled = filled.replace(f"[MASK {number}]", span)
        assert filled == texts[task.gold["evidence"][0]]


def test_what_is_masked_is_not_left_elsewhere(source: MaskedSpanTasks):
    for task in iterate(source, "train", 300):
        left = task.prompt.split("\n\n", 1)[1]
        assert not [span for span in task.gold["spans"] if re.search(rf"(?<![\w]){re.escape(span)}(?![\w])", left)]


def test_difficulty_is_the_number_of_masks(source: MaskedSpanTasks):
    levels = {
        task.difficulty for task in iterate(source, "train", 200) if task.difficulty == task.prompt.count("[MASK")
    }
    assert levels == {1, 2, 3, 4}
    assert {task.difficulty for task in iterate(MaskedSpanTasks(CORPUS, masks=2), "train", 50)} == {2}


def test_a_passage_is_in_one_split_whatever_the_seed(source: MaskedSpanTasks):
    other = MaskedSpanTasks(CORPUS, seed=1)
    evidence = {
        split: {task.gold["evidence"][0] for tasks in (source, other) for task in iterate(tasks, split)}
        for split in source.splits
    }
    assert sum(map(len, evidence.values())) == len(set.union(*evidence.values()))
    assert source.get("train", 0) != other.get("train", 0)


def test_tasks_are_repeatable_found_by_id_and_travel(source: MaskedSpanTasks):
    task = source.get("validation", 7)
    assert pickle.loads(pickle.dumps(source)).get("validation", 7) == task == source.find(task.id)
    assert len(pickle.dumps(source)) < 1_000
    assert task.data == {"corpus": CORPUS}


def test_any_documents_will_do():
    documents = [Document(str(n), f"Page {n}", f"It was {n + 1000} years before Lord Brock came.") for n in range(50)]
    source = MaskedSpanTasks(documents, masks=(1, 2))
    tasks = [task for split in source.splits for task in iterate(source, split)]
    assert len(tasks) == 100
    assert {"Lord Brock"} < {span for task in tasks for span in task.gold["spans"]}
    assert tasks[0].data == {}


def test_what_is_not_there_is_refused(source: MaskedSpanTasks):
    with pytest.raises(TaskError, match="has tasks 0 to"):
        source.get("train", source.size("train"))
    with pytest.raises(TaskError, match="ids look like masked/train/0"):
        source.find("masked/train/x")
    with pytest.raises(UsageError, match="masks must be numbers from 1"):
        MaskedSpanTasks(CORPUS, masks=0)
