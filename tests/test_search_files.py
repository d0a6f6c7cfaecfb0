from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from agentgym.errors import TaskError, UsageError
from agentgym.task import SHARES, Task
from agentgym.task_files.left_out import Why
from agentgym.tasks.search import documents_of
from agentgym.tasks.search.files import SearchFileTasks

DATA = Path(__file__).parent / "data" / "search_files"


def tasks_of(source: SearchFileTasks) -> dict[str, Task]:
    found = [source.get(split, i) for split in source.splits for i in range(source.size(split))]
    return {task.id.split("/", 1)[1]: task for task in found}


def titles(source: SearchFileTasks, task: Task) -> list[str]:
    by_id = {document.id: document.title for document in source.documents}
    return [by_id[page] for page in task.gold["evidence"]]


@pytest.mark.parametrize(
    ("name", "format_", "questions", "documents"),
    [
        ("squad.json", "squad", 4, 3),
        ("hotpot.json", "hotpotqa", 3, 5),
        ("twowiki.json", "2wiki", 1, 2),
        ("musique.jsonl", "musique", 2, 3),
        ("open.jsonl", "open", 2, 0),
        ("closed", "closed", 2, 3),
    ],
)
def test_each_format_is_recognized_and_gives_questions_and_a_corpus(
    name: str, format_: str, questions: int, documents: int
):
    source = SearchFileTasks(DATA / name)
    assert (source.format, len(tasks_of(source)), len(source.documents)) == (format_, questions, documents)
    assert len({document.id for document in source.documents}) == documents
    for task in tasks_of(source).values():
        assert set(task.gold["evidence"]) <= {document.id for document in source.documents}
        assert [hop["document"] for hop in task.gold["hops"]] == task.gold["evidence"]
        assert Task.from_dict(json.loads(json.dumps(task.to_dict()))) == task


def test_the_corpus_of_a_task_is_all_that_is_needed_to_get_its_documents():
    source = SearchFileTasks(DATA / "hotpot.json")
    task = tasks_of(source)["h1"]
    assert list(documents_of(json.loads(json.dumps(task.data["corpus"])))) == source.documents
    assert pickle.loads(pickle.dumps(source)).find(task.id) == task


def test_questions_without_passages_name_no_corpus():
    assert "corpus" not in tasks_of(SearchFileTasks(DATA / "open.jsonl"))["1"].data


def test_answers_keep_their_order_and_lose_repetitions():
    assert tasks_of(SearchFileTasks(DATA / "squad.json"))["q1"].gold["answers"] == ["Orla Venn", "Venn"]
    assert tasks_of(SearchFileTasks(DATA / "musique.jsonl"))["2hop__1_2"].gold["answers"] == ["Wend", "River Wend"]
    assert tasks_of(SearchFileTasks(DATA / "open.jsonl"))["1"].gold["answers"] == ["the warden", "Mara Oake"]


def test_impossible_questions_are_unanswerable():
    for name, key in (("squad.json", "q2"), ("musique.jsonl", "2hop__1_3")):
        gold = tasks_of(SearchFileTasks(DATA / name))[key].gold
        assert (gold["unanswerable"], gold["answers"]) == (True, [])


def test_evidence_is_in_the_order_of_the_steps():
    musique = SearchFileTasks(DATA / "musique.jsonl")
    assert titles(musique, tasks_of(musique)["2hop__1_2"]) == ["Ash Tolliver", "Brackley Moss"]
    hotpot = SearchFileTasks(DATA / "hotpot.json")
    assert titles(hotpot, tasks_of(hotpot)["h1"]) == ["The Tin Orchard", "Pella Strand"]


def test_entities_stand_for_evidence_where_a_closed_corpus_names_none():
    closed = SearchFileTasks(DATA / "closed")
    assert titles(closed, tasks_of(closed)["c1"]) == ["Ferrow Mill", "Ines Halloway (miller)"]
    assert titles(closed, tasks_of(closed)["c2"]) == ["Ines Halloway (miller)"]


def test_questions_that_share_a_passage_are_in_one_split_however_long_the_chain(tmp_path: Path):
    entries = []
    for chain in range(60):
        for link in range(4):
            pages = [f"Page {chain}-{link}", f"Page {chain}-{link + 1}"]
            entries.append(
                {
                    "_id": f"{chain}-{link}",
                    "question": f"What joins {pages[0]} and {pages[1]}?",
                    "answer": "rope",
                    "supporting_facts": [[page, 0] for page in pages],
                    "context": [[page, [f"This is {page}."]] for page in pages],
                }
            )
    file = tmp_path / "chains.json"
    file.write_text(json.dumps(entries))
    source = SearchFileTasks(file)
    pages = {
        split: {page for i in range(source.size(split)) for page in source.get(split, i).gold["evidence"]}
        for split in source.splits
    }
    assert set(pages) == set(SHARES)
    assert sum(map(len, pages.values())) == len(set.union(*pages.values())) == 60 * 5


def test_squad_articles_are_not_divided(tmp_path: Path):
    articles = [
        {
            "title": f"Article {n}",
            "paragraphs": [
                {
                    "context": f"Paragraph {m} of article {n}.",
                    "qas": [{"id": f"{n}-{m}", "question": f"What is {n}-{m}?", "answers": [{"text": "it"}]}],
                }
                for m in range(3)
            ],
        }
        for n in range(50)
    ]
    file = tmp_path / "articles.json"
    file.write_text(json.dumps({"data": articles}))
    splits: dict[str, set[str]] = {}
    for key, task in tasks_of(SearchFileTasks(file)).items():
        splits.setdefault(key.split("-")[0], set()).add(task.split)
    assert all(len(found) == 1 for found in splits.values())
    assert set.union(*splits.values()) == set(SHARES)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"question": "who", "answer": ["x"]}\n{"question": ', r"a\.jsonl:2: not JSON"),
        (
            "a.jsonl",
            '{"question": "who", "answer": ["x"]}\n[1]',
            r"a\.jsonl:2: a JSON object is expected on each line, not a list",
        ),
        ("a.jsonl", '{"question": "who", "answer": 3}', r"a\.jsonl:1: 'answer' must be text or a list"),
        ("a.jsonl", '{"query": "who"}', r"unknown format with fields \['query'\]; choose from: squad"),
        (
            "a.json",
            '[{"question": "q", "answer": "a", "_id": "1", "context": [1]}]',
            r"item 0: 'context' must be a list",
        ),
        (
            "a.json",
            '[{"question": "q", "answer": "a", "_id": "1", "context": [], "supporting_facts": [["T", 0]]}]',
            r"item 0: supporting fact 'T' is not a title",
        ),
        ("a.json", '{"data": [{"title": "T"}]}', r"data 0: there is no 'paragraphs'; it has \['title'\]"),
        ("a.json", "{", r"a\.json:1: not JSON"),
        ("a.json", "[{", r"a\.json: not JSON"),
        (
            "a.json",
            '{"questions": []}',
            r"a\.json: one JSON object without a list 'data' in it; it has \['questions'\]",
        ),
        ("a.jsonl", "", r"a\.jsonl: .*no entry"),
    ],
)
def test_errors_name_the_file_the_place_and_what_is_wrong(tmp_path: Path, name: str, content: str, message: str):
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=message) as told:
        SearchFileTasks(tmp_path / name, strict=True)
    assert "\n" not in str(told.value)


ASKED = {"question": "who", "answer": ["x"]}
HOTPOT = {"_id": "h", "question": "q", "answer": "a", "context": [["T", ["One."]]], "supporting_facts": [["T", 0]]}
MUSIQUE = {
    "id": "m",
    "question": "q",
    "answer": "a",
    "paragraphs": [{"idx": 0, "title": "T", "paragraph_text": "One.", "is_supporting": True}],
    "question_decomposition": [{"paragraph_support_idx": 0}],
}


@pytest.mark.parametrize(
    ("entry", "broken", "said"),
    [
        (ASKED, {"question": None, "answer": ["x"]}, "no text under 'question'"),
        (ASKED, {"question": "who", "answer": []}, "'answer' must be text or a list of texts, not []"),
        (ASKED, {"question": "\ud800", "answer": ["x"]}, "its text holds half of a character"),
        (HOTPOT, HOTPOT | {"_id": "g", "supporting_facts": [["U", 0]]}, "supporting fact 'U' is not a title"),
        (HOTPOT, HOTPOT | {"_id": "g", "context": None}, "'context' must be a list of [title, [sentences]], not None"),
        (HOTPOT, {"_id": "g", "question": "q", "context": []}, "no text under 'answer'"),
        (MUSIQUE, MUSIQUE | {"id": "n", "paragraphs": None}, "there is no 'paragraphs'"),
        (MUSIQUE, MUSIQUE | {"id": "n", "paragraphs": [3]}, "paragraphs 0 must be an object, not a number"),
        (MUSIQUE, {name: MUSIQUE[name] for name in ("question", "paragraphs")}, "there is no 'question_decomposition'"),
    ],
)
def test_a_broken_question_is_left_out_and_named(tmp_path: Path, entry: Any, broken: Any, said: str):
    file = tmp_path / "a.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in (entry, broken)))
    source = SearchFileTasks(file)
    assert len(tasks_of(source)) == 1
    (left_out,) = source.left_out
    assert (left_out.where, left_out.why) == (f"{file}:2", Why.BROKEN)
    assert said in left_out.reason
    with pytest.raises(UsageError, match=r"a\.jsonl:2: "):
        SearchFileTasks(file, strict=True)


@pytest.mark.parametrize("entry", [ASKED | {"id": None}, HOTPOT | {"type": None, "answer_aliases": None}, MUSIQUE])
def test_null_stands_for_a_field_that_is_not_there(tmp_path: Path, entry: Any):
    (tmp_path / "a.jsonl").write_text(json.dumps(entry))
    assert len(tasks_of(SearchFileTasks(tmp_path / "a.jsonl", strict=True))) == 1


def test_a_broken_paragraph_of_squad_costs_its_own_questions_alone(tmp_path: Path):
    asked = {"id": "1", "question": "q", "answers": [{"text": "a"}]}
    paragraphs = [{"context": None, "qas": [asked]}, {"context": "One.", "qas": [asked, {"id": "2", "answers": [{}]}]}]
    file = tmp_path / "dev-v2.0.json"
    file.write_text(json.dumps({"data": [{"title": "T", "paragraphs": paragraphs}, {"title": None}]}))
    source = SearchFileTasks(file)
    assert list(tasks_of(source)) == ["1"]
    places = sorted(entry.where.partition(": ")[2] for entry in source.left_out)
    assert places == ["data 0, paragraphs 0", "data 0, paragraphs 1, qas 1", "data 1"]


def test_squad_as_parquet_gives_the_same_questions(tmp_path: Path):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        {
            "id": "q1",
            "title": "T_U",
            "context": "One.",
            "question": "q",
            "answers": {"text": ["a"], "answer_start": [0]},
        },
        {"id": "q2", "title": "T_U", "context": "One.", "question": "r", "answers": {"text": [], "answer_start": []}},
    ]
    parquet.write_table(pytest.importorskip("pyarrow").Table.from_pylist(rows), tmp_path / "validation-00000.parquet")
    source = SearchFileTasks(tmp_path / "validation-00000.parquet")
    assert (source.format, source.splits, len(source.documents)) == ("squad", ("validation",), 1)
    found = tasks_of(source)
    assert (found["q1"].gold["answers"], found["q2"].gold["unanswerable"]) == (["a"], True)


# Splits.


def hotpot(folder: Path, name: str, *numbers: int) -> Path:
    entries = [
        HOTPOT
        | {"_id": str(n), "question": f"{n}?", "context": [[f"T{n}", ["One."]]], "supporting_facts": [[f"T{n}", 0]]}
        for n in numbers
    ]
    (folder / name).write_text(json.dumps(entries))
    return folder / name


def test_the_name_of_a_file_says_its_split(tmp_path: Path):
    file = hotpot(tmp_path, "hotpot_dev_distractor_v1.json", *range(40))
    assert SearchFileTasks(file).splits == ("validation",)
    assert SearchFileTasks(file, split_by="test").splits == ("test",)
    assert set(SearchFileTasks(file, split_by="hash").splits) == set(SHARES)
    assert set(SearchFileTasks(hotpot(tmp_path, "hotpot_train_v1.1.json", *range(40))).splits) == set(SHARES)


def test_a_folder_of_files_is_one_source_with_the_passages_of_all(tmp_path: Path):
    hotpot(tmp_path, "hotpot_train_v1.1.json", 1, 2, 3)
    hotpot(tmp_path, "hotpot_dev_distractor_v1.json", 3, 4)
    source = SearchFileTasks(tmp_path)
    assert {split: source.size(split) for split in source.splits} == {"train": 3, "validation": 1}
    assert [document.title for document in source.documents] == ["T3", "T4", "T1", "T2"]
    assert [entry.why for entry in source.left_out] == [Why.REPEATED]
    assert list(documents_of(source.get("train", 0).data["corpus"])) == source.documents


def test_an_empty_test_file_is_refused(tmp_path: Path):
    hotpot(tmp_path, "train.json", 1, 2)
    hotpot(tmp_path, "test.json")
    with pytest.raises(UsageError, match=r"test\.json: the file holds no entry"):
        SearchFileTasks(tmp_path)


def test_files_of_several_formats_are_not_mixed(tmp_path: Path):
    hotpot(tmp_path, "train.json", 1)
    (tmp_path / "nq.jsonl").write_text(json.dumps(ASKED))
    with pytest.raises(UsageError, match=r"nq\.jsonl \(open\), train\.json \(hotpotqa\); name one file"):
        SearchFileTasks(tmp_path)


def test_wrong_arguments_are_refused_with_the_valid_ones(tmp_path: Path):
    with pytest.raises(UsageError, match="there is no file or folder"):
        SearchFileTasks(tmp_path / "missing.json")
    with pytest.raises(UsageError, match=r"has no corpus\.jsonl and questions\.jsonl"):
        SearchFileTasks(tmp_path)
    with pytest.raises(UsageError, match=r"format must be one of auto, squad.*, not 'trivia'"):
        SearchFileTasks(DATA / "open.jsonl", format="trivia")


def test_a_file_that_changed_is_not_the_corpus_of_its_old_tasks(tmp_path: Path):
    file = tmp_path / "squad.json"
    shutil.copy(DATA / "squad.json", file)
    corpus = tasks_of(SearchFileTasks(file))["q1"].data["corpus"]
    file.write_text(file.read_text().replace("nine boats", "ten boats"))
    with pytest.raises(TaskError, match="is not the file that the task was made from"):
        list(documents_of(corpus))


@pytest.mark.skipif("AGENTGYM_DATA" not in os.environ, reason="AGENTGYM_DATA names no folder of data sets")
def test_a_real_closed_corpus_can_be_read():
    source = SearchFileTasks(Path(os.environ["AGENTGYM_DATA"]) / "2wiki_closed_corpus")
    assert len(source.documents) == 6119
    assert len(tasks_of(source)) == 983
