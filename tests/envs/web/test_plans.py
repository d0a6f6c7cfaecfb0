"""Plans of web tasks as actions, Shop-R1's rewards, and the comparison of answers. Needs no browser."""

from __future__ import annotations

from typing import Any

import pytest

from agentgym.base.errors import TaskError
from agentgym.core.messages import ToolCall
from agentgym.envs.web.acting import show_view
from agentgym.envs.web.demonstration import CLICK, TYPE, Act, action_reward, rouge_l
from agentgym.envs.web.env import act_of, act_shown, answers_agree, call_for, progress
from agentgym.tools.browser import View, ViewNode

VIEW = View(
    url="http://shop.test/",
    title="Shop",
    nodes=(
        ViewNode("listitem", depth=0),
        ViewNode("text", value="Garden hose", depth=1, parent=0),
        ViewNode("button", "Add", ref="e1", depth=1, parent=0),
        ViewNode("listitem", depth=0),
        ViewNode("text", value="Lamp", depth=1, parent=3),
        ViewNode("button", "Add", ref="e2", depth=1, parent=3),
        ViewNode("textbox", "Search", ref="e3"),
        ViewNode("combobox", "Size", ref="e4"),
    ),
)
ADD = {"do": "click", "role": "button", "name": "Add"}
FILL = {"do": "fill", "role": "textbox", "name": "Search", "text": "hose"}
SELECT = {"do": "select", "role": "combobox", "name": "Size", "value": "L"}
ANSWER = {"do": "answer", "text": "12"}
STEPS: list[tuple[dict[str, Any], ToolCall]] = [
    (ADD, ToolCall("click", {"ref": "e1"})),
    (ADD | {"nth": 1}, ToolCall("click", {"ref": "e2"})),
    (ADD | {"within": "Lamp"}, ToolCall("click", {"ref": "e2"})),
    (FILL, ToolCall("type", {"ref": "e3", "text": "hose"})),
    (SELECT, ToolCall("select", {"ref": "e4", "option": "L"})),
    ({"do": "press", "key": "Enter"}, ToolCall("press", {"key": "Enter"})),
    ({"do": "goto", "path": "/cart"}, ToolCall("goto", {"address": "/cart"})),
    ({"do": "dialog", "accept": True}, ToolCall("dialog", {"accept": True, "text": ""})),
    (ANSWER, ToolCall("answer", {"text": "12"})),
]


def test_a_step_becomes_a_call_on_the_view_and_a_demonstrated_act():
    assert [call_for(step, VIEW) for step, _ in STEPS] == [call for _, call in STEPS]
    for step in (ADD, FILL, SELECT, ANSWER):
        assert act_of(call_for(step, VIEW), VIEW) == act_shown(step)
    with pytest.raises(TaskError, match="Garden hose"):
        call_for({"do": "click", "role": "link", "name": "Checkout"}, VIEW)
    with pytest.raises(TaskError, match="unknown kind"):
        call_for({"do": "fly"}, VIEW)


def test_the_reward_grows_with_similarity_to_the_demonstration():
    demonstrated = Act(TYPE, "Search", "red garden hose")
    acts = (Act(CLICK, "Search"), Act(TYPE, "Name", "lamp"), Act(TYPE, "Search", "lamp"), demonstrated)
    rewards = [action_reward(act, demonstrated) for act in acts]
    assert rewards == sorted(set(rewards))
    assert rewards[0] > 0
    near = action_reward(Act(TYPE, "Search", "red lamp"), demonstrated, 1000)
    assert action_reward(demonstrated, demonstrated, scale=1000) > 1000 > near
    assert rouge_l("a b c", "a b c") == 1.0
    assert rouge_l("c a b", "a b c") == pytest.approx(2 / 3), "the longest common words in order"
    assert rouge_l("", "a") == rouge_l("x", "a") == 0.0


ANSWERS = [
    ("$1,200.00", "1200", True),
    ("12.5", "12.50", True),
    (" Ada  Byron. ", "ada byron", True),
    ("-3", "3", False),
    ("12 apples", "12", False),
    ("Ada", "Ada Byron", False),
    (None, "Ada", False),
    ("impossible", "Impossible", True),
    ("2030-01-07", "2030-01-07", True),
]


def test_answers_agree_as_numbers_or_as_text():
    assert [row for row in ANSWERS if answers_agree(row[0], row[1]) is not row[2]] == []


def test_progress_is_the_share_of_initially_false_checks_that_hold():
    assert progress([True, False, False], [True, True, False]) == 0.5
    assert progress([True], [True]) == progress([], []) == 0.0


def test_only_changes_since_the_last_view_are_shown():
    nodes = (
        *VIEW.nodes[:-1],
        ViewNode("combobox", "Size", value="L", ref="e4"),
        *(ViewNode("text", value=str(n)) for n in range(30)),
    )
    after = View(url=VIEW.url, title=VIEW.title, nodes=nodes)
    grown = View(url=VIEW.url, title=VIEW.title, nodes=(*nodes, ViewNode("text", value="done")))
    assert show_view(after, after, 5000) == "Nothing changed."
    assert "+ done" in show_view(grown, after, 5000)
    assert "Garden hose" not in show_view(grown, after, 5000)
    assert "Garden hose" in show_view(grown, None, 5000)
