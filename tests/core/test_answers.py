"""Conversion of the return values of hooks and tools, and the choice of a task."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from agentgym.base.errors import InfrastructureError, ToolError, UsageError
from agentgym.core.engine.steps import (
    as_data,
    as_text,
    finite,
    message_of,
    opening_messages,
    reset_options,
    select_task,
    training_step_in,
    without_pictures,
)
from agentgym.core.messages import Pictured, assistant, system, user
from agentgym.core.task import GeneratedTasks
from agentgym.core.toolset import MAX_RESULT_CHARS
from tests.counter_env import counter_task

TASKS = GeneratedTasks("counter", counter_task, {"train": None, "test": 3})


def must_not_draw(size: int) -> int:
    raise AssertionError("the seed chooses")


def test_text_is_unchanged_and_other_results_become_bounded_json():
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
def test_details_of_any_kind_become_json_data(value: Any, data: Any):
    assert as_data(value) == data
    loop: list[Any] = []
    loop.append(loop)
    assert as_data(loop) == "(list: no JSON data)"


def test_pictures_are_split_from_the_result():
    assert without_pictures(Pictured("seen", (b"png",))) == ("seen", (b"png",))
    assert without_pictures({"text": "seen"}) == ({"text": "seen"}, ())


def test_an_opening_is_text_or_messages_that_do_not_end_with_the_assistant():
    assert opening_messages("Begin.") == [user("Begin.")]
    talk = [user("Hello."), assistant("Yes?"), user("Begin.")]
    assert opening_messages(talk) == talk
    for refused in (talk[:2], [], ["Begin."], [system("Be good."), user("Begin.")]):
        with pytest.raises(UsageError, match=r"start\(\)"):
            opening_messages(refused)


def test_a_mistake_without_a_readable_message_is_an_infrastructure_error():
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
def test_a_channel_value_must_be_a_finite_number(value: Any):
    with pytest.raises(InfrastructureError, match=r"reward channel 'outcome' was given .* not a finite number"):
        finite({"first": 1.0, "outcome": value})


# Reset options.


def test_options_name_a_training_step_only_in_training():
    assert reset_options("counter/test/1") == {"task": "counter/test/1"}
    assert reset_options("counter/test/1", 0) == {"task": "counter/test/1", "training_step": 0}
    assert [training_step_in(options) for options in (None, {}, {"task": "x"})] == [None] * 3
    assert training_step_in({"training_step": 0}) == 0


def test_seeds_cover_the_split_and_neighbouring_seeds_choose_unrelated_tasks():
    few = [select_task(TASKS, "test", {}, seed, must_not_draw).id for seed in range(60)]
    assert {few.count(f"counter/test/{index}") > 10 for index in range(3)} == {True}
    many = [int(select_task(TASKS, "train", {}, seed, must_not_draw).id.rpartition("/")[2]) for seed in range(200)]
    assert len(set(many)) == 200
    assert max(many) < 2**31
    assert sum(number > 2**30 for number in many) > 60


def test_without_a_seed_a_task_is_drawn_from_the_whole_split():
    sizes: list[int] = []

    def draw(size: int) -> int:
        sizes.append(size)
        return 2

    for split in ("train", "test"):
        assert select_task(TASKS, "train", {"split": split}, None, draw).id == f"counter/{split}/2"
    assert sizes == [2**31, 3]
