"""Equal and nearly equal tasks and texts are found; lookalikes are not."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.base.errors import UsageError
from agentgym.core.task import Task
from agentgym.eval.overlap import (
    COMMON,
    LocatedTask,
    TaskPair,
    find_in_texts,
    find_pairs,
    ngrams,
    problem_tokens,
    split_tasks,
    texts_in,
)
from agentgym.eval.overlap import DUPLICATES_NGRAM as NGRAM
from tests.refusals import not_refused
from tests.rows import each_row

WORDS = [f"w{n}" for n in range(40)]


def task(name: str, prompt: str, **gold: object) -> Task:
    return Task(name, "train", prompt, gold=gold)


def located_tasks(*prompts: str, place: str = "train") -> list[LocatedTask]:
    return [LocatedTask(task(f"{place}/{n}", prompt), place) for n, prompt in enumerate(prompts)]


def ids(pairs: list[TaskPair]) -> set[frozenset[str]]:
    return {frozenset((pair.one.task.id, pair.other.task.id)) for pair in pairs}


# Duplicates.


def test_the_same_problem_is_found_whatever_its_case_and_spacing():
    [pair] = find_pairs([*located_tasks("How many\n ships?"), *located_tasks("how many SHIPS?", place="test")])
    assert (pair.is_exact, pair.is_across) == (True, True)


def test_gold_and_data_distinguish_problems_but_ids_and_splits_do_not():
    def located(name: str, gold: Any = None, data: Any = None) -> LocatedTask:
        split = "train" if name == "a" else "test"
        return LocatedTask(
            Task(name, split, "What?", gold=gold or {}, data=data or {"id": name, "split": split}), split
        )

    assert len(find_pairs([located("a"), located("b")])) == 1
    assert find_pairs([located("a", gold={"n": 1}), located("b", gold={"n": 2})], near=1.0) == []
    assert find_pairs([located("a", data={"rows": [1]}), located("b", data={"rows": [2]})], near=1.0) == []


def test_nearly_the_same_is_found_above_the_threshold_only():
    words = WORDS[:30]
    changed = [*words[:-1], "other"]
    tasks = located_tasks(" ".join(words), " ".join(changed), " ".join(reversed(words)))
    [pair] = find_pairs(tasks, near=0.9)
    assert ids([pair]) == {frozenset(("train/0", "train/1"))}
    assert pair.similarity == pytest.approx(27 / 29)
    assert find_pairs(tasks, near=0.95) == []


@given(st.integers(0, 10_000), st.sampled_from([0.3, 0.5, 0.7, 0.9]))
def test_the_search_agrees_with_comparing_all_pairs(seed: int, near: float):
    rng = Random(seed)
    base = rng.choices(WORDS, k=12)
    prompts = []
    for _ in range(12):
        words = list(base)
        for _ in range(rng.randrange(6)):
            words[rng.randrange(len(words))] = rng.choice(WORDS)
        prompts.append(" ".join(words[: rng.randrange(1, 13)]))
    tasks = located_tasks(*dict.fromkeys(prompts))
    sets = {name.task.id: set(ngrams(problem_tokens(name.task), NGRAM)) for name in tasks}
    expected = {
        frozenset((name, other))
        for name in sets
        for other in sets
        if name < other and len(sets[name] & sets[other]) / len(sets[name] | sets[other]) >= near
    }
    assert ids(find_pairs(tasks, near)) == expected


# Texts.


SENTENCE = "the quick brown fox jumps over the lazy dog while nobody looks at all today"


def test_a_prompt_in_a_text_is_found_whatever_the_punctuation():
    contamination = find_in_texts(
        [task("a", f"Please read: {SENTENCE}!")], [("book", f"So, {SENTENCE.upper().replace(' ', ', ')}.")]
    )
    [hit] = contamination.hits
    assert (hit.task.id, hit.where) == ("a", "book")
    assert hit.run == " ".join(SENTENCE.split()[:13])


def test_twelve_shared_words_of_a_longer_prompt_are_not_enough():
    words = SENTENCE.split()
    text = " ".join([*words[:12], "something", *words[12:]])
    assert find_in_texts([task("a", SENTENCE)], [("book", text)]).hits == []


def test_short_prompts_are_compared_as_a_whole_and_very_short_ones_not_at_all():
    tasks = [
        task("nine", "one two three four five six seven eight nine"),
        task("seven", "one two three four five six seven"),
    ]
    text = "zero one two three four five six seven eight nine ten"
    contamination = find_in_texts(tasks, [("book", text)])
    assert [hit.task.id for hit in contamination.hits] == ["nine"]
    assert (contamination.compared, contamination.too_short) == (1, 1)
    with pytest.raises(UsageError, match="fewer than 8 words"):
        find_in_texts(tasks, [], 5)


def test_the_wording_of_a_template_does_not_count():
    template = "write a function in python that takes one list of numbers and returns"
    tasks = [task(f"t{n}", f"{template} result number {n} of them all in order") for n in range(COMMON + 1)]
    text = f"{template} result number 3 of them all in order"
    assert find_in_texts(tasks, [("book", template)]).hits == []
    assert [hit.task.id for hit in find_in_texts(tasks, [("book", text)]).hits] == ["t3"]


def test_texts_are_read_from_files_and_folders_with_their_places(tmp_path: Path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.txt").write_text("plain text", encoding="utf-8")
    (tmp_path / "deep" / "b.jsonl").write_text(
        '{"x": ["one", {"y": "two"}], "n": 3}\n\n{"x": "three"}\n', encoding="utf-8"
    )
    (tmp_path / "c.json").write_text(json.dumps([{"q": "four"}, "five"]), encoding="utf-8")
    (tmp_path / "ignored.bin").write_bytes(b"\xff")
    texts = {Path(where).name: text for where, text in texts_in(tmp_path)}
    assert texts == {
        "a.txt": "plain text",
        "b.jsonl:1": "one\ntwo",
        "b.jsonl:3": "three",
        "c.json[0]": "four",
        "c.json[1]": "five",
    }


def test_texts_that_cannot_be_read_are_refused_with_their_place(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "a.jsonl").write_text("{", encoding="utf-8")
    rows = [
        ("nowhere", "nowhere' does not exist"),
        ("a.jsonl", "a.jsonl: not valid JSON"),
        ("empty", "holds no text"),
    ]
    assert not_refused(lambda name: list(texts_in(tmp_path / name)), rows) == []


# Splitting.


def families(count: int) -> list[Task]:
    """Pairs of nearly equal tasks."""
    rng = Random(3)
    tasks = []
    for number in range(count):
        words = [f"{rng.choice(WORDS)}{number}" for _ in range(30)]
        tasks += [task(f"{number}a", " ".join(words)), task(f"{number}b", " ".join([*words, "really"]))]
    return tasks


def test_no_similar_tasks_are_in_both_splits():
    divided = split_tasks(families(40), 0.3)
    where = {item.id: split for split, tasks in divided.items() for item in tasks}
    assert all(where[f"{number}a"] == where[f"{number}b"] for number in range(40))
    assert {item.split for item in divided["test"]} == {"test"}
    assert 10 <= len(divided["test"]) <= 40


def test_a_split_does_not_depend_on_order_ids_or_other_tasks():
    tasks = families(40)
    where = {item.prompt: item.split for tasks_of_split in split_tasks(tasks, 0.3).values() for item in tasks_of_split}
    renamed = [Task(f"x{n}", "other", item.prompt) for n, item in enumerate(reversed(tasks[:60]))]
    again = {
        item.prompt: item.split for tasks_of_split in split_tasks(renamed, 0.3).values() for item in tasks_of_split
    }
    assert again == {prompt: where[prompt] for prompt in again}


# Other languages.

SENTENCES = {
    "zh": "小明有五个苹果，他给了小红两个，然后又从商店买了三个。请问小明现在一共有多少个苹果？请写出计算过程。",
    "th": "สมชายมีแอปเปิ้ลห้าผลเขาให้สมหญิงสองผลแล้วซื้อเพิ่มอีกสามผลตอนนี้สมชายมีแอปเปิ้ลกี่ผลจงแสดงวิธีทำ",
    "ar": "لدى أحمد خمس تفاحات وأعطى أخاه تفاحتين ثم اشترى ثلاث تفاحات أخرى من المتجر فكم تفاحة لديه الآن",
}


def pairs_of(first: str, other: str, near: float = 0.7) -> list[float]:
    tasks = [Task("a", "train", first, gold={"x": 1}), Task("b", "test", other, gold={"x": 1})]
    return [pair.similarity for pair in find_pairs([LocatedTask(task, task.split) for task in tasks], near)]


@each_row("text", SENTENCES.values())
def test_near_duplicates_and_contamination_are_found_in_every_script(text: str):
    assert pairs_of(text, text) == [1.0]
    assert pairs_of(text, f"{text} 7")[0] < 1.0
    assert pairs_of(text, text[::-1]) == []
    contamination = find_in_texts([Task("a", "train", text)], [("corpus", f"xx {text} yy")])
    assert ([hit.task.id for hit in contamination.hits], contamination.too_short) == (["a"], 0)


@each_row(
    ("first", "other"),
    [
        ("Café naïve résumé", unicodedata.normalize("NFD", "Café naïve résumé")),
        ("STRASSE 12", "straße 12"),
        ("abc 12, def", "ａｂｃ　１２， ｄｅｆ"),
        ("solve this", "sol\u00adve\u200b this"),
        ("كتب الولد", "كَتَبَ الوَلَدُ"),
    ],
)
def test_encoding_variants_of_a_text_are_equal(first: str, other: str):
    assert pairs_of(first, other) == [1.0]


@each_row(("first", "other"), [("5²", "52"), ("की", "का"), ("x ≤ 1", "x ≥ 1"), ("a < b", "a - b"), ("🍎", "🍌")])
def test_lookalikes_with_another_meaning_differ(first: str, other: str):
    assert 1.0 not in pairs_of(first, other, 0.1)
