"""Files of questions in published formats as search tasks over the corpus of their passages."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.errors import TaskError
from agentgym.core.task import SHARES, Task
from agentgym.tasks.search import documents_of
from agentgym.tasks.search.files import SearchFileTasks
from tests.refusals import refusal
from tests.tasks.entries import HOTPOT, MUSIQUE, OPEN, every_task, write_entries

DATA = Path(__file__).parents[2] / "data" / "search_files"
FORMATS = {
    "squad.json": ("squad", 4, 3),
    "hotpot.json": ("hotpotqa", 3, 5),
    "twowiki.json": ("2wiki", 1, 2),
    "musique.jsonl": ("musique", 2, 3),
    "open.jsonl": ("open", 2, 0),
    "closed": ("closed", 2, 3),
}
"""Format, number of questions and number of documents of every file."""


def tasks_of(source: SearchFileTasks) -> dict[str, Task]:
    return {task.id.split("/", 1)[1]: task for task in every_task(source)}


def from_file(name: str, key: str) -> Task:
    return tasks_of(SearchFileTasks(DATA / name))[key]


def titles(name: str, key: str) -> list[str]:
    source = SearchFileTasks(DATA / name)
    by_id = {document.id: document.title for document in source.documents}
    return [by_id[page] for page in tasks_of(source)[key].gold["evidence"]]


def test_each_format_is_detected_and_read_into_questions_and_a_corpus():
    for name, expected in FORMATS.items():
        source = SearchFileTasks(DATA / name)
        assert (source.format, len(tasks_of(source)), len(source.documents)) == expected
        ids = {document.id for document in source.documents}
        assert len(ids) == len(source.documents)
        for task in tasks_of(source).values():
            assert set(task.gold["evidence"]) <= ids
            assert [hop["document"] for hop in task.gold["hops"]] == task.gold["evidence"]
            assert ("corpus" in task.data) == bool(ids)


def test_a_task_names_its_corpus_and_notices_changes_of_the_file(tmp_path: Path):
    source = SearchFileTasks(DATA / "hotpot.json")
    task = tasks_of(source)["h1"]
    assert list(documents_of(json.loads(json.dumps(task.data["corpus"])))) == source.documents
    assert pickle.loads(pickle.dumps(source)).find(task.id) == task
    file = tmp_path / "squad.json"
    shutil.copy(DATA / "squad.json", file)
    corpus = tasks_of(SearchFileTasks(file))["q1"].data["corpus"]
    file.write_text(file.read_text().replace("nine boats", "ten boats"))
    with pytest.raises(TaskError, match="is not the file"):
        list(documents_of(corpus))


def test_golds_are_read_from_the_file():
    # Answers have the order of the file, without repetitions.
    assert from_file("squad.json", "q1").gold["answers"] == ["Orla Venn", "Venn"]
    assert from_file("musique.jsonl", "2hop__1_2").gold["answers"] == ["Wend", "River Wend"]
    assert from_file("open.jsonl", "1").gold["answers"] == ["the warden", "Mara Oake"]
    for name, key in (("squad.json", "q2"), ("musique.jsonl", "2hop__1_3")):
        gold = from_file(name, key).gold
        assert (gold["unanswerable"], gold["answers"]) == (True, [])
    # Evidence has the order of the steps; entities stand for it where a closed corpus names none.
    assert titles("musique.jsonl", "2hop__1_2") == ["Ash Tolliver", "Brackley Moss"]
    assert titles("hotpot.json", "h1") == ["The Tin Orchard", "Pella Strand"]
    assert titles("closed", "c1") == ["Ferrow Mill", "Ines Halloway (miller)"]
    assert titles("closed", "c2") == ["Ines Halloway (miller)"]


BROKEN: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (OPEN, {"question": "who", "answer": []}, "'answer' must be text or a list of texts"),
    (HOTPOT, HOTPOT | {"_id": "g", "supporting_facts": [["U", 0]]}, "supporting fact 'U' is not a title"),
    (HOTPOT, HOTPOT | {"_id": "g", "context": [1]}, "'context' must be a list"),
    (MUSIQUE, MUSIQUE | {"id": "n", "paragraphs": None}, "there is no 'paragraphs'"),
]


def test_a_broken_question_is_left_out_with_its_place_and_reason(tmp_path: Path):
    for entry, broken, words in BROKEN:
        file = write_entries(tmp_path, entry, broken)
        source = SearchFileTasks(file)
        assert len(tasks_of(source)) == 1
        (left_out,) = source.left_out
        assert left_out.where == f"{file}:2"
        assert words in left_out.reason


def test_files_of_unknown_form_are_refused(tmp_path: Path):
    assert "has no corpus.jsonl and questions.jsonl" in refusal(SearchFileTasks, tmp_path)
    file = write_entries(tmp_path, {"query": "who"})
    assert "unknown format with fields ['query']; choose from: squad" in refusal(SearchFileTasks, file)


def test_questions_linked_by_shared_passages_are_in_one_split(tmp_path: Path):
    entries = []
    for chain in range(60):
        for link in range(4):
            pages = [f"Page {chain}-{link}", f"Page {chain}-{link + 1}"]
            entry = {
                "_id": f"{chain}-{link}",
                "question": f"What joins {pages[0]} and {pages[1]}?",
                "supporting_facts": [[page, 0] for page in pages],
                "context": [[page, [f"This is {page}."]] for page in pages],
            }
            entries.append(HOTPOT | entry)
    source = SearchFileTasks(write_entries(tmp_path, *entries))
    pages = {
        split: {page for i in range(source.size(split)) for page in source.get(split, i).gold["evidence"]}
        for split in source.splits
    }
    assert set(pages) == set(SHARES)
    assert sum(map(len, pages.values())) == len(set.union(*pages.values())) == 60 * 5
