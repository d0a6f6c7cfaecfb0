"""Task generation with small families: cycling, selection, splits, errors and tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from agentgym import procedural
from agentgym.core.task import SHARES, Task, iterate, split_of
from agentgym.procedural import (
    Families,
    NoFit,
    ProceduralTasks,
    by_level,
    choose_families,
    divide,
    must_belong,
)
from tests.refusals import not_refused, refusal


@dataclass(frozen=True)
class Draft:
    words: Mapping[str, Any]


@dataclass(frozen=True)
class Family(procedural.Family[Random, Draft]):
    colour: str


FAMILIES: Families[Family] = Families(Family)


@FAMILIES.register(2, "c {x}", "C {x}", colour="red")
def c(rng: Random) -> Draft:
    return Draft({"x": rng.random()})


@FAMILIES.register(1, "a {x}", colour="red")
def a(rng: Random) -> Draft:
    return Draft({"x": rng.random()})


@FAMILIES.register(1, "b {x}", colour="grey")
def b(rng: Random) -> Draft:
    return Draft({"x": rng.random()})


@FAMILIES.register(3, "{x}", colour="grey")
def never(rng: Random) -> Draft:
    raise NoFit


@FAMILIES.register(3, "late {x}", name="late", colour="grey")
def _late(rng: Random) -> Draft:
    """A third of the draws fit."""
    if (x := rng.random()) > 1 / 3:
        raise NoFit
    return Draft({"x": x})


@FAMILIES.register(4, "unseen {x}", colour="grey", held_out=True)
def unseen(rng: Random) -> Draft:
    return Draft({"x": rng.random()})


@FAMILIES.register(5, "few {x}", colour="grey")
def few(rng: Random) -> Draft:
    """There are only forty problems."""
    return Draft({"x": rng.randrange(40)})


class Tasks(ProceduralTasks[Family]):
    """Tasks tagged with their family."""

    prefix, draws, more = "proc", 200, "luck"

    @classmethod
    def known(cls) -> Families[Family]:
        return FAMILIES

    def draw(self, family: Family, split: str, index: int, rng: Random) -> Task:
        draft = family.draw(rng)
        must_belong(split, f"{family.name} {draft.words}")
        return family.task(self.id_of(split, index), split, family.word(draft, rng))


def families_of(source: ProceduralTasks[Any], count: int, split: str = "train") -> list[str]:
    return [task.tags[0] for task in iterate(source, split, count)]


# The order of tasks.


def test_tasks_cycle_through_levels_and_their_families():
    assert families_of(Tasks(families=["a", "b", "c"]), 8) == ["a", "c", "b", "c", "a", "c", "b", "c"]
    assert families_of(Tasks(families=["c", "b", "a"]), 4) == ["b", "c", "a", "c"]
    # A family that finds nothing gives way to the next of its level.
    assert families_of(Tasks(difficulty=3), 3) == ["late", "late", "late"]


def test_generated_tasks_never_change():
    """A suite that was published as a seed must stay the same in later versions."""
    tasks = Tasks(families=["a", "few"])
    assert [tasks.get("train", index).prompt for index in (0, 1)] == ["a 0.48642161756545843", "few 15"]
    assert [tasks.get("test", index).prompt for index in (0, 1)] == ["a 0.4535103256515891", "few 13"]


# The choice of families.


def test_families_are_selected_by_level_name_and_attribute():
    assert [family.name for family in Tasks().families] == ["a", "b", "c", "never", "late", "unseen", "few"]
    assert [family.name for family in Tasks(difficulty=[1, 2], families=["c", "b"]).families] == ["b", "c"]
    assert [family.name for family in Tasks(where={"colour": "red"}).families] == ["a", "c"]
    assert by_level(choose_families(FAMILIES, [2, 1])) == [["a", "b"], ["c"]]
    assert by_level(choose_families(FAMILIES, None, ["b", "few", "a"])) == [["b", "a"], ["few"]]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"families": ["nevr"]}, "unknown family 'nevr'; did you mean 'never'? Choose from: c, a, b, never, late"),
    ({"families": []}, "no family was given; choose from: c, a, b"),
    ({"difficulty": 9}, "unknown difficulty 9. Choose from: 1, 2, 3, 4, 5"),
    ({"where": {"colour": "gray"}}, "unknown colour 'gray'; did you mean 'grey'? Choose from: grey, red"),
    (
        {"difficulty": 2, "families": ["a"], "where": {"colour": "red"}},
        "no family fits all of this at once: family ['a'], difficulty 2, colour 'red'",
    ),
]


def test_an_impossible_selection_is_explained():
    assert not_refused(lambda choice: Tasks(**choice), REFUSED) == []


# Splits.


def test_splits_share_no_problem():
    tasks = Tasks(families="few")
    prompts = {split: {task.prompt for task in iterate(tasks, split, 60)} for split in tasks.splits}
    assert tasks.splits == tuple(SHARES)
    assert sum(map(len, prompts.values())) == len(set.union(*prompts.values()))
    assert all(split_of(f"few {{'x': {text.split()[1]}}}", SHARES) == "test" for text in prompts["test"])


def test_held_out_families_occur_in_the_unseen_split_only():
    tasks = Tasks(difficulty=[1, 4])
    assert tasks.splits == (*SHARES, "test_unseen")
    assert set(families_of(tasks, 8, "test_unseen")) == {"unseen"}
    assert all(set(families_of(tasks, 8, split)) == {"a", "b"} for split in SHARES)
    assert Tasks(families="unseen").splits == ("test_unseen",)
    assert divide("abc", "b".__contains__) == {**dict.fromkeys(SHARES, ("a", "c")), "test_unseen": ("b",)}
    assert divide("a", "b".__contains__) == dict.fromkeys(SHARES, ("a",))
    assert divide("b", "b".__contains__) == {"test_unseen": ("b",)}


# Families, and the tasks they make.


def test_a_family_uses_all_its_phrasings_and_tags_its_tasks():
    draft = Draft({"x": 7})
    assert {FAMILIES["c"].word(draft, Random(seed)) for seed in range(20)} == {"c 7", "C 7"}
    task = FAMILIES["c"].task("t", "train", "?", data={"d": 1}, gold={"g": 2}, tags=("own",))
    assert task == Task("t", "train", "?", 2, {"d": 1}, {"g": 2}, ("c", "L2", "own"))


def test_a_family_without_level_or_phrasing_or_with_a_repeated_name_is_refused():
    families: Families[Family] = Families(Family)

    def register(level: int, *phrasings: str) -> None:
        families.register(level, *phrasings, name="one", colour="grey")(never)

    assert "'one' needs a level of at least 1" in refusal(register, 0, "?")
    assert "at least one phrasing" in refusal(register, 1)
    register(1, "?")
    assert "'one' already exists" in refusal(register, 2, "?")
