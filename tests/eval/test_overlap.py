"""Tasks compared with each other and with texts: what is the same is found, what only looks alike is not."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import UsageError
from agentgym.overlap.contamination import COMMON, find_in_texts, texts_in
from agentgym.overlap.duplicates import NGRAM, Pair, Placed, find_pairs
from agentgym.overlap.splitting import split_tasks
from agentgym.overlap.words import ngrams, problem_tokens
from agentgym.task import Task
from tests.rows import each_row

WORDS = [f"w{n}" for n in range(40)]


def task(name: str, prompt: str, **gold: object) -> Task:
    return Task(name, "train", prompt, gold=gold)


def placed(*prompts: str, place: str = "train") -> list[Placed]:
    return [Placed(task(f"{place}/{n}", prompt), place) for n, prompt in enumerate(prompts)]


def ids(pairs: list[Pair]) -> set[frozenset[str]]:
    return {frozenset((pair.one.task.id, pair.other.task.id)) for pair in pairs}


# Duplicates.


def test_the_same_problem_is_found_whatever_its_case_and_spacing():
    [pair] = find_pairs([*placed("How many\n ships?"), *placed("how many SHIPS?", place="test")])
    assert (pair.is_exact, pair.is_across) == (True, True)


@each_row("other", ["Is a < b?", "Is a - b?", "Is b > a?"])
def test_signs_and_order_make_other_problems(other: str):
    assert find_pairs(placed("Is a > b?", other), near=1.0) == []


def test_the_gold_and_the_data_make_other_problems():
    one, other = task("a", "What is hidden?", number=1), task("b", "What is hidden?", number=2)
    assert find_pairs([Placed(one, "train"), Placed(other, "train")], near=1.0) == []
    data = [
        Placed(Task(name, "train", "What?", data={"rows": rows}), "train") for name, rows in (("a", [1]), ("b", [2]))
    ]
    assert find_pairs(data, near=1.0) == []


def test_the_name_of_a_task_in_its_data_makes_no_other_problem():
    tasks = [
        Task(name, split, "What?", data={"id": name, "split": split}) for name, split in (("a", "train"), ("b", "test"))
    ]
    assert len(find_pairs([Placed(one, one.split) for one in tasks])) == 1


def test_of_many_equal_tasks_each_is_paired_with_the_first():
    pairs = find_pairs(placed("same", "same", "same", "other"))
    assert ids(pairs) == {frozenset(("train/0", "train/1")), frozenset(("train/0", "train/2"))}


def test_nearly_the_same_is_found_above_the_threshold_only():
    words = WORDS[:30]
    changed = [*words[:-1], "other"]
    tasks = placed(" ".join(words), " ".join(changed), " ".join(reversed(words)))
    [pair] = find_pairs(tasks, near=0.9)
    assert ids([pair]) == {frozenset(("train/0", "train/1"))}
    assert pair.similarity == pytest.approx(27 / 29)
    assert find_pairs(tasks, near=0.95) == []


@given(st.integers(0, 10_000), st.sampled_from([0.3, 0.5, 0.7, 0.9]))
def test_the_search_finds_exactly_what_comparing_all_with_all_finds(seed: int, near: float):
    rng = Random(seed)
    base = rng.choices(WORDS, k=12)
    prompts = []
    for _ in range(12):
        words = list(base)
        for _ in range(rng.randrange(6)):
            words[rng.randrange(len(words))] = rng.choice(WORDS)
        prompts.append(" ".join(words[: rng.randrange(1, 13)]))
    tasks = placed(*dict.fromkeys(prompts))
    sets = {one.task.id: set(ngrams(problem_tokens(one.task), NGRAM)) for one in tasks}
    expected = {
        frozenset((one, other))
        for one in sets
        for other in sets
        if one < other and len(sets[one] & sets[other]) / len(sets[one] | sets[other]) >= near
    }
    assert ids(find_pairs(tasks, near)) == expected


# Texts.


SENTENCE = "the quick brown fox jumps over the lazy dog while nobody looks at all today"


def test_a_prompt_in_a_text_is_found_whatever_the_punctuation():
    found = find_in_texts(
        [task("a", f"Please read: {SENTENCE}!")], [("book", f"So, {SENTENCE.upper().replace(' ', ', ')}.")]
    )
    [hit] = found.hits
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
    found = find_in_texts(tasks, [("book", text)])
    assert ([hit.task.id for hit in found.hits], found.compared, found.too_short) == (["nine"], 1, 1)


def test_the_wording_of_a_template_is_no_contamination():
    template = "write a function in python that takes one list of numbers and returns"
    tasks = [task(f"t{n}", f"{template} result number {n} of them all in order") for n in range(COMMON + 1)]
    text = f"{template} result number 3 of them all in order"
    assert find_in_texts(tasks, [("book", template)]).hits == []
    assert [hit.task.id for hit in find_in_texts(tasks, [("book", text)]).hits] == ["t3"]


def test_runs_that_are_too_short_to_mean_anything_are_refused():
    with pytest.raises(UsageError, match="fewer than 8 words"):
        find_in_texts([task("a", SENTENCE)], [], 5)


def test_texts_are_read_from_files_and_folders_with_their_places(tmp_path: Path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.txt").write_text("plain text", encoding="utf-8")
    (tmp_path / "deep" / "b.jsonl").write_text(
        '{"x": ["one", {"y": "two"}], "n": 3}\n\n{"x": "three"}\n', encoding="utf-8"
    )
    (tmp_path / "c.json").write_text(json.dumps([{"q": "four"}, "five"]), encoding="utf-8")
    (tmp_path / "ignored.bin").write_bytes(b"\xff")
    found = {Path(where).name: text for where, text in texts_in(tmp_path)}
    assert found == {
        "a.txt": "plain text",
        "b.jsonl:1": "one\ntwo",
        "b.jsonl:3": "three",
        "c.json[0]": "four",
        "c.json[1]": "five",
    }


def test_texts_that_cannot_be_read_are_refused_with_their_place(tmp_path: Path):
    (tmp_path / "a.jsonl").write_text("{", encoding="utf-8")
    for path, reason in ((tmp_path / "nowhere", "no file or folder"), (tmp_path / "a.jsonl", "not valid JSON")):
        with pytest.raises(UsageError, match=reason):
            list(texts_in(path))
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(UsageError, match="holds no text"):
        list(texts_in(tmp_path))


# Splitting.


def families(count: int) -> list[Task]:
    """Pairs of nearly equal tasks."""
    rng = Random(3)
    made = []
    for number in range(count):
        words = [f"{rng.choice(WORDS)}{number}" for _ in range(30)]
        made += [task(f"{number}a", " ".join(words)), task(f"{number}b", " ".join([*words, "really"]))]
    return made


def test_no_similar_tasks_are_in_both_splits():
    divided = split_tasks(families(40), 0.3)
    where = {one.id: split for split, tasks in divided.items() for one in tasks}
    assert all(where[f"{number}a"] == where[f"{number}b"] for number in range(40))
    assert {one.split for one in divided["test"]} == {"test"}
    assert 10 <= len(divided["test"]) <= 40


def test_neither_order_nor_ids_nor_other_tasks_decide_a_split():
    tasks = families(40)
    where = {one.prompt: one.split for some in split_tasks(tasks, 0.3).values() for one in some}
    renamed = [Task(f"x{n}", "other", one.prompt) for n, one in enumerate(reversed(tasks[:60]))]
    again = {one.prompt: one.split for some in split_tasks(renamed, 0.3).values() for one in some}
    assert again == {prompt: where[prompt] for prompt in again}


def test_a_split_that_would_be_empty_is_refused():
    with pytest.raises(UsageError, match="1 cluster"):
        split_tasks(families(1), 0.5)
    with pytest.raises(UsageError, match="above 0 and below 1"):
        split_tasks(families(2), 1.0)


# Other languages.

SENTENCES = {
    "zh": "小明有五个苹果，他给了小红两个，然后又从商店买了三个。请问小明现在一共有多少个苹果？请写出计算过程。",
    "ja": "太郎は朝七時に起きて、八時に学校へ行きました。学校まで二十分かかります。着くのは何時何分ですか。",
    "th": "สมชายมีแอปเปิ้ลห้าผลเขาให้สมหญิงสองผลแล้วซื้อเพิ่มอีกสามผลตอนนี้สมชายมีแอปเปิ้ลกี่ผลจงแสดงวิธีทำ",
    "hi": "राम के पास पाँच सेब हैं और उसने श्याम को दो सेब दिए फिर बाज़ार से तीन सेब और खरीदे अब राम के पास कितने सेब हैं",
    "ar": "لدى أحمد خمس تفاحات وأعطى أخاه تفاحتين ثم اشترى ثلاث تفاحات أخرى من المتجر فكم تفاحة لديه الآن",
    "ko": "철수는 사과 다섯 개를 가지고 있었고 영희에게 두 개를 주었습니다 그리고 가게에서 세 개를 더 샀습니다",
}


def pairs_of(one: str, other: str, near: float = 0.7) -> list[float]:
    tasks = [Task("a", "train", one, gold={"x": 1}), Task("b", "test", other, gold={"x": 1})]
    return [pair.similarity for pair in find_pairs([Placed(task, task.split) for task in tasks], near)]


@each_row("text", SENTENCES.values())
def test_near_duplicates_and_contamination_are_found_in_every_script(text: str):
    assert pairs_of(text, text) == [1.0]
    assert pairs_of(text, f"{text} 7")[0] < 1.0
    assert pairs_of(text, text[::-1]) == []
    found = find_in_texts([Task("a", "train", text)], [("corpus", f"xx {text} yy")])
    assert ([hit.task.id for hit in found.hits], found.too_short) == (["a"], 0)


@each_row(
    ("one", "other"),
    [
        ("Café naïve résumé", unicodedata.normalize("NFD", "Café naïve résumé")),
        ("STRASSE 12", "straße 12"),
        ("abc 12, def", "ａｂｃ　１２， ｄｅｆ"),
        ("solve this", "sol\u00adve\u200b this"),
        ("كتب الولد", "كَتَبَ الوَلَدُ"),
        ("كتاب", "كتـــاب"),
        ("שלום", "שָׁלוֹם"),
        ("take ❤ now", "take ❤️ now"),
        ("カタカナ", "ｶﾀｶﾅ"),
    ],
)
def test_how_a_text_is_encoded_does_not_matter(one: str, other: str):
    assert pairs_of(one, other) == [1.0]


@each_row(("one", "other"), [("5²", "52"), ("की", "का"), ("x ≤ 1", "x ≥ 1"), ("人", "入"), ("🍎", "🍌")])
def test_lookalikes_of_another_meaning_are_not_the_same(one: str, other: str):
    assert 1.0 not in pairs_of(one, other, 0.1)


def test_a_long_text_is_read_in_pieces_and_no_run_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    words = [f"word{number}" for number in range(3000)]
    (tmp_path / "corpus.txt").write_text(" ".join(words), encoding="utf-8")
    monkeypatch.setattr("agentgym.overlap.contamination._PIECE", 1000)
    monkeypatch.setattr("agentgym.overlap.contamination._SHARED", 300)
    assert max(len(text) for _, text in texts_in(tmp_path)) == 1300
    tasks = [Task(str(start), "test", " ".join(words[start : start + 13])) for start in range(0, 2987)]
    found = find_in_texts(tasks, texts_in(tmp_path))
    assert (len(found.hits), found.texts) == (len(tasks), 1)


def test_records_that_are_nested_too_deeply_are_an_error_that_names_the_file(tmp_path: Path):
    (tmp_path / "deep.jsonl").write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(UsageError, match=r"deep\.jsonl: not valid JSON"):
        list(texts_in(tmp_path))
