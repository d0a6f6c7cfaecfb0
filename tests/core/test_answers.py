"""What an author's code gives back, and how a task is chosen: every form, and what is refused."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from agentgym.engine.answers import as_data, as_text, finite, message_of, opening_messages, without_pictures
from agentgym.engine.steps import reset_options, select_task, training_step_in
from agentgym.errors import InfrastructureError, TaskError, ToolError, UsageError
from agentgym.messages import Pictured, assistant, system, user
from agentgym.task import GeneratedTasks
from agentgym.toolset import MAX_RESULT_CHARS
from tests.counter_env import counter_task

TASKS = GeneratedTasks("counter", counter_task, {"train": None, "test": 3})


def undrawn(size: int) -> int:
    raise AssertionError("nothing is drawn where the seed or the options choose")


def test_text_is_taken_as_it_is_and_everything_else_as_data_of_bounded_size():
    long = "x" * (2 * MAX_RESULT_CHARS)
    assert as_text(long) == long
    assert as_text({"a": [1, None]}) == '{"a": [1, null]}'
    assert len(as_text([long])) <= MAX_RESULT_CHARS


class Unreadable:
    def __repr__(self) -> str:
        raise RuntimeError("cannot be shown")


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"a": (1, {2}), 3: None}, {"a": [1, [2]], "3": None}),
        ("half \ud800", "half \ud800"),
        (math.nan, "(float: no JSON data)"),
        (b"\xff", "(bytes: no JSON data)"),
        ({"a": Unreadable()}, {"a": "(Unreadable: no JSON data)"}),
    ],
)
def test_what_an_author_says_of_an_episode_becomes_data_whatever_it_is(value: Any, data: Any):
    assert as_data(value) == data
    loop: list[Any] = []
    loop.append(loop)
    assert as_data(loop) == "(list: no JSON data)"


def test_pictures_are_told_apart_from_what_came_with_them():
    assert without_pictures(Pictured("seen", (b"png",))) == ("seen", (b"png",))
    assert without_pictures({"text": "seen"}) == ({"text": "seen"}, ())


def test_an_episode_is_opened_by_a_text_or_by_messages_of_which_the_last_is_not_the_policys():
    assert opening_messages("Begin.") == [user("Begin.")]
    talk = [user("Hello."), assistant("Yes?"), user("Begin.")]
    assert opening_messages(talk) == talk
    for refused in (talk[:2], [], ["Begin."], [system("Be good."), user("Begin.")]):
        with pytest.raises(UsageError, match=r"start\(\)"):
            opening_messages(refused)


def test_a_mistake_that_cannot_say_what_it_is_is_the_authors():
    class Mute(ToolError):
        def __str__(self) -> str:
            raise ZeroDivisionError

    assert message_of(ToolError("no such box")) == "no such box"
    with pytest.raises(InfrastructureError, match="the message of a Mute cannot be read"):
        message_of(Mute())


@pytest.mark.parametrize("value", [0, 1, -2.5, True, Decimal("0.5")])
def test_numbers_of_any_kind_are_channel_values(value: Any):
    assert finite({"outcome": value, "other": 1}) == {"outcome": float(value), "other": 1.0}


@pytest.mark.parametrize("value", [None, "many", [1], 10**400, math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_is_no_channel_value(value: Any):
    with pytest.raises(InfrastructureError, match=r"reward channel 'outcome' was given .* not a finite number"):
        finite({"first": 1.0, "outcome": value})


# Reset options.


def test_options_name_a_training_step_only_in_training():
    assert reset_options("counter/test/1") == {"task": "counter/test/1"}
    assert reset_options("counter/test/1", 0) == {"task": "counter/test/1", "training_step": 0}
    assert [training_step_in(options) for options in (None, {}, {"task": "x"})] == [None] * 3
    assert training_step_in({"training_step": 0}) == 0


@pytest.mark.parametrize("step", [-1, True, False, 1.0, "1"])
def test_a_training_step_is_a_whole_number_from_0(step: Any):
    with pytest.raises(UsageError, match="training_step is a whole number from 0 upwards, not"):
        training_step_in({"training_step": step})


def test_a_task_is_the_one_that_the_options_name():
    own = counter_task("test", 9)
    assert select_task(TASKS, "train", {"task": own}, 7, undrawn) is own
    assert select_task(TASKS, "train", {"task": "counter/test/2"}, 7, undrawn).id == "counter/test/2"
    assert select_task(TASKS, "train", {"split": "test", "index": 0}, 7, undrawn).id == "counter/test/0"
    assert select_task(TASKS, "test", {"index": 1}, None, undrawn).id == "counter/test/1"


def test_a_seed_chooses_below_the_size_and_unlike_tasks_for_neighbouring_seeds():
    few = [select_task(TASKS, "test", {}, seed, undrawn).id for seed in range(60)]
    assert {few.count(f"counter/test/{index}") > 10 for index in range(3)} == {True}
    many = [int(select_task(TASKS, "train", {}, seed, undrawn).id.rpartition("/")[2]) for seed in range(200)]
    assert len(set(many)) == 200
    assert max(many) < 2**31
    assert sum(number > 2**30 for number in many) > 60


def test_without_a_seed_a_task_is_drawn_from_all_there_are():
    sizes: list[int] = []

    def draw(size: int) -> int:
        sizes.append(size)
        return 2

    for split in ("train", "test"):
        assert select_task(TASKS, "train", {"split": split}, None, draw).id == f"counter/{split}/2"
    assert sizes == [2**31, 3]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tasks": 1, "indx": 2}, UsageError, r"unknown reset options \['indx', 'tasks'\]; known: index, split, task"),
        ({"split": "dev"}, TaskError, "unknown split 'dev'"),
        ({"split": "test", "index": 3}, TaskError, "has no task 3"),
        ({"task": "counter/test/3"}, TaskError, "has no task 3"),
    ],
)
def test_options_that_name_no_task_are_refused(options: dict[str, Any], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        select_task(TASKS, "train", options, 0, undrawn)
