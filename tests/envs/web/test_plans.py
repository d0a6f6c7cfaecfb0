"""Plans of web tasks as actions, rewards next to a demonstration, and how answers are compared. Needs no browser."""

from __future__ import annotations

import pytest

from agentgym.envs.web.demonstration import CLICK, TYPE, Act, action_reward, rouge_l
from agentgym.envs.web.grading import answers_agree, progress
from agentgym.envs.web.observing import show_view
from agentgym.envs.web.plans import act_of, act_shown, call_for
from agentgym.errors import TaskError
from agentgym.messages import ToolCall
from agentgym.tools.browser import Node, View

VIEW = View(
    url="http://shop.test/",
    title="Shop",
    nodes=(
        Node("listitem", depth=0),
        Node("text", value="Garden hose", depth=1, parent=0),
        Node("button", "Add", ref="e1", depth=1, parent=0),
        Node("listitem", depth=0),
        Node("text", value="Lamp", depth=1, parent=3),
        Node("button", "Add", ref="e2", depth=1, parent=3),
        Node("textbox", "Search", ref="e3"),
        Node("combobox", "Size", ref="e4"),
    ),
)


@pytest.mark.parametrize(
    ("step", "call"),
    [
        ({"do": "click", "role": "button", "name": "Add"}, ToolCall("click", {"ref": "e1"})),
        ({"do": "click", "role": "button", "name": "Add", "nth": 1}, ToolCall("click", {"ref": "e2"})),
        ({"do": "click", "role": "button", "name": "Add", "within": "Lamp"}, ToolCall("click", {"ref": "e2"})),
        (
            {"do": "fill", "role": "textbox", "name": "Search", "text": "hose"},
            ToolCall("type", {"ref": "e3", "text": "hose"}),
        ),
        (
            {"do": "select", "role": "combobox", "name": "Size", "value": "L"},
            ToolCall("select", {"ref": "e4", "option": "L"}),
        ),
        ({"do": "press", "key": "Enter"}, ToolCall("press", {"key": "Enter"})),
        ({"do": "goto", "path": "/cart"}, ToolCall("goto", {"address": "/cart"})),
        ({"do": "dialog", "accept": True}, ToolCall("dialog", {"accept": True, "text": ""})),
        ({"do": "answer", "text": "12"}, ToolCall("answer", {"text": "12"})),
    ],
)
def test_a_step_becomes_a_call_on_what_is_seen(step, call):
    assert call_for(step, VIEW) == call


def test_a_step_that_the_page_does_not_allow_says_what_is_there():
    with pytest.raises(TaskError, match="Garden hose"):
        call_for({"do": "click", "role": "link", "name": "Checkout"}, VIEW)
    with pytest.raises(TaskError, match="of an unknown kind"):
        call_for({"do": "fly"}, VIEW)


def test_taking_a_step_of_the_plan_is_the_demonstrated_action():
    for step in (
        {"do": "click", "role": "button", "name": "Add"},
        {"do": "fill", "role": "textbox", "name": "Search", "text": "hose"},
        {"do": "select", "role": "combobox", "name": "Size", "value": "L"},
        {"do": "answer", "text": "12"},
    ):
        assert act_of(call_for(step, VIEW), VIEW) == act_shown(step)


def test_the_reward_of_an_action_grows_with_its_likeness_to_the_demonstration():
    shown = Act(TYPE, "Search", "red garden hose")
    other, same_type, near, right = (
        action_reward(said, shown)
        for said in (
            Act(CLICK, "Search"),
            Act(TYPE, "Name", "lamp"),
            Act(TYPE, "Search", "lamp"),
            Act(TYPE, "Search", "red garden hose"),
        )
    )
    assert 0 < other < same_type < near < right
    assert action_reward(shown, shown, scale=1000) > 1000 > action_reward(Act(TYPE, "Search", "red lamp"), shown, 1000)


def test_rouge_l_counts_the_longest_common_words_in_order():
    assert rouge_l("a b c", "a b c") == 1.0
    assert rouge_l("c a b", "a b c") == pytest.approx(2 / 3)
    assert rouge_l("", "a") == rouge_l("x", "a") == 0.0


@pytest.mark.parametrize(
    ("said", "wanted", "agree"),
    [
        ("$1,200.00", "1200", True),
        ("12.5", "12.50", True),
        (" Ada  Byron. ", "ada byron", True),
        ("-3", "3", False),
        ("12 apples", "12", False),
        ("Ada", "Ada Byron", False),
        (None, "Ada", False),
        ("impossible", "Impossible", True),
        ("2030-01-07", "2030-01-07", True),
    ],
)
def test_answers_agree_as_numbers_or_as_text(said, wanted, agree):
    assert answers_agree(said, wanted) is agree


def test_progress_counts_what_was_open_at_first():
    assert progress([True, False, False], [True, True, False]) == 0.5
    assert progress([True], [True]) == progress([], []) == 0.0


def test_only_what_changed_is_shown_when_there_was_a_view_before():
    nodes = (
        *VIEW.nodes[:-1],
        Node("combobox", "Size", value="L", ref="e4"),
        *(Node("text", value=str(n)) for n in range(30)),
    )
    after = View(url=VIEW.url, title=VIEW.title, nodes=nodes)
    grown = View(url=VIEW.url, title=VIEW.title, nodes=(*nodes, Node("text", value="done")))
    assert show_view(after, after, 5000) == "Nothing changed."
    assert "+ done" in show_view(grown, after, 5000)
    assert "Garden hose" not in show_view(grown, after, 5000)
    assert "Garden hose" in show_view(grown, None, 5000)
