"""Tasks compared with each other and with texts: what is the same is found, what only looks alike is not."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.errors import UsageError
from agentgym.overlap.contamination import COMMON, find_in_texts, texts_in
from agentgym.overlap.duplicates import NGRAM, Pair, Placed, find_pairs
from agentgym.overlap.splitting import split_tasks
from agentgym.overlap.words import ngrams, problem_tokens, words_of
from agentgym.task import Task

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


@pytest.mark.parametrize("other", ["Is a < b?", "Is a - b?", "Is b > a?"])
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


def test_words_are_without_case_and_punctuation():
    assert words_of("It's 3.5 – Ünï_code!") == ["it", "s", "3", "5", "ünï_code"]
