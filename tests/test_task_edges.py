"""Task sources at the ends of their splits, and procedural sources: every level and family in turn, without end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from agentgym.errors import TaskError, UsageError
from agentgym.procedural import ProceduralTasks, by_level, choose_families
from agentgym.task import GeneratedTasks, Task, TaskList, iterate, read_manifest, split_of, write_manifest


def generate(split: str, index: int) -> Task:
    return Task(f"gen/{split}/{index}", split, f"{split} question {index}")


def source(size: int | None) -> GeneratedTasks:
    return GeneratedTasks("gen", generate, {"train": size})


def ids(size: int | None, limit: int | None = None, start: int = 0) -> list[int]:
    return [int(task.id.rpartition("/")[2]) for task in iterate(source(size), "train", limit, start)]


def test_iteration_begins_where_it_is_told_and_ends_with_the_split_or_the_limit():
    assert ids(4) == [0, 1, 2, 3]
    assert ids(4, start=1) == [1, 2, 3]
    assert ids(4, limit=2) == [0, 1]
    assert ids(4, limit=9, start=2) == [2, 3]
    assert ids(4, limit=0) == []
    assert ids(None, limit=2, start=5) == [5, 6]


@pytest.mark.parametrize("tasks", [source(3), TaskList([generate("train", i) for i in range(3)])])
def test_a_split_ends_with_its_last_task(tasks: GeneratedTasks | TaskList):
    assert tasks.get("train", 2).id == "gen/train/2"
    assert tasks.get("train", 0).id == "gen/train/0"
    for index in (3, -1):
        with pytest.raises(TaskError):
            tasks.get("train", index)


def test_a_split_without_end_has_a_beginning():
    assert source(None).get("train", 10**9).id == f"gen/train/{10**9}"
    with pytest.raises(TaskError, match="has no task -1; it has no end"):
        source(None).get("train", -1)


def test_a_task_is_easy_unless_it_says_otherwise():
    assert generate("train", 0).difficulty == 1
    assert Task.from_dict({"id": "t", "split": "train", "prompt": "?"}) == Task("t", "train", "?")


def test_a_list_finds_what_it_holds_and_nothing_else():
    tasks = TaskList([generate("train", 0)])
    assert tasks.find("gen/train/0") == generate("train", 0)
    assert tasks.size("train") == 1
    with pytest.raises(TaskError, match="no task 'gen/train/1'"):
        tasks.find("gen/train/1")


def test_content_falls_into_splits_by_a_hash_that_never_changes():
    """Moved boundaries would let tasks that were trained on into the held-out split."""
    shares = {"train": 0.5, "test": 0.25, "validation": 0.25}
    assert [split_of(str(number), shares) for number in range(12)] == [
        "train", "train", "validation", "train", "train", "validation",
        "validation", "train", "train", "train", "train", "train",
    ]  # fmt: skip


def test_shares_that_add_up_to_a_little_less_than_one_leave_nothing_out():
    assert {split_of(str(number), {"train": 0.0, "test": 0.0}) for number in range(20)} == {"test"}


@pytest.mark.parametrize(("line", "number"), [("nonsense\n", 1), ("{}\n", 1)])
def test_the_first_line_of_a_manifest_is_line_one(tmp_path: Path, line: str, number: int):
    (tmp_path / "suite.jsonl").write_text(line, encoding="utf-8")
    with pytest.raises(UsageError, match=rf"suite\.jsonl:{number}: not a task"):
        read_manifest(tmp_path / "suite.jsonl")


def test_a_manifest_keeps_the_order_of_its_tasks(tmp_path: Path):
    tasks = [generate("train", index) for index in (3, 1, 2)]
    write_manifest(tmp_path / "suite.jsonl", tasks)
    assert list(iterate(read_manifest(tmp_path / "suite.jsonl"), "train")) == tasks


# Procedural sources.


@dataclass(frozen=True)
class Family:
    name: str
    level: int


FAMILIES = {name: Family(name, level) for name, level in (("c", 2), ("a", 1), ("b", 1), ("never", 3), ("late", 3))}


class Procedural(ProceduralTasks[Family]):
    """Tasks that say which family drew them; `never` has nothing to ask, and `late` only at its third draw."""

    prefix, draws, more = "proc", 3, "luck"

    def __init__(self, names: Sequence[Sequence[str]] = (("a", "b"), ("c",)), seed: int = 0):
        super().__init__(seed)
        self.names, self.tried = names, list[str]()

    @property
    def splits(self) -> tuple[str, ...]:
        return ("train", "test")

    def levels(self, split: str) -> Sequence[Sequence[str]]:
        return self.names

    def family(self, name: str) -> Family:
        return FAMILIES[name]

    def draw(self, family: Family, split: str, index: int, rng: Random) -> Task | None:
        self.tried.append(family.name)
        drawn = rng.random()
        if family.name == "never" or (family.name == "late" and self.tried.count("late") < 3):
            return None
        return Task(f"proc/{split}/{index}", split, f"{family.name} {drawn}")


def drawn(tasks: Procedural, count: int) -> list[str]:
    return [tasks.get("train", index).prompt.split()[0] for index in range(count)]


def test_tasks_go_round_over_levels_and_over_the_families_of_each():
    assert drawn(Procedural(), 8) == ["a", "c", "b", "c", "a", "c", "b", "c"]


def test_a_family_gives_way_after_its_draws():
    tasks = Procedural([["never", "a"]])
    assert drawn(tasks, 2) == ["a", "a"]
    assert tasks.tried == ["never"] * 3 + ["a", "a"]
    assert drawn(Procedural([["late", "a"]]), 1) == ["late"]


def test_where_no_family_has_anything_the_error_says_what_to_allow():
    with pytest.raises(TaskError, match="found nothing to ask of never for split 'train'; allow more luck"):
        Procedural([["never"]]).get("train", 0)


def test_a_procedural_task_depends_on_seed_split_and_number_alone():
    first = Procedural().get("train", 4)
    assert Procedural().get("train", 4) == first == Procedural().find("proc/train/4")
    others = {Procedural(seed=1).get("train", 4).prompt, Procedural().get("test", 4).prompt, first.prompt}
    assert len(others) == 3


@pytest.mark.parametrize(
    "task_id", ["", "proc", "proc/train", "proc/dev/0", "other/train/0", "proc/train/x", "proc/train/0/0"]
)
def test_ids_that_name_nothing_are_refused(task_id: str):
    with pytest.raises(TaskError, match=r"ids look like proc/train/0"):
        Procedural().find(task_id)


def test_procedural_splits_begin_at_zero_and_never_end():
    assert Procedural().size("train") is None
    assert Procedural().get("train", 0).id == "proc/train/0"
    with pytest.raises(TaskError, match="start at 0, not -1"):
        Procedural().get("train", -1)
    with pytest.raises(TaskError, match="unknown split"):
        Procedural().size("dev")


def test_families_are_chosen_by_level_and_by_name():
    assert by_level(FAMILIES.values()) == [["a", "b"], ["c"], ["never", "late"]]
    assert choose_families(FAMILIES, None, None) == [["a", "b"], ["c"], ["never", "late"]]
    assert choose_families(FAMILIES, [1, 2], ["c", "b"]) == [["b"], ["c"]]
    assert choose_families(FAMILIES, 2, None) == [["c"]]
    with pytest.raises(UsageError, match=r"none of the families \['a'\] has difficulty 2"):
        choose_families(FAMILIES, 2, ["a"])
