"""The web environment in a real browser: what solves a task, what does not, and what a policy is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from agentgym.endings import Ending, Reason
from agentgym.envs.web import WebEnv
from agentgym.errors import InfrastructureError, UsageError
from agentgym.messages import text_of
from agentgym.policy import FunctionPolicy
from agentgym.rollout import EnvFactory, Job, Limits, collect
from agentgym.task import Task, TaskList
from agentgym.tasks.web.source import SITES, WebTasks, load_families
from tests.browsers import need_browser
from tests.web_play import call, kill_browsers, play_randomly, play_solution, said

pytestmark = pytest.mark.web
need_browser()

FAMILY = "shop.wish"
"""A short task that changes the state."""


@pytest.fixture
def env() -> Iterator[WebEnv]:
    env = WebEnv(families=[FAMILY])
    env.reset(options={"index": 0})
    yield env
    env.close()


def one_of_each_kind() -> list[str]:
    """A family of each level of each site; `test_web_tasks.py` plays the plans of all over HTTP."""
    return list({(family.site, family.level): name for name, family in load_families().items()}.values())


@pytest.mark.parametrize("name", one_of_each_kind())
def test_a_solution_solves_in_the_browser(name: str):
    env = WebEnv(families=[name])
    try:
        env.reset(options={"index": 0})
        last = play_solution(env)
        assert last.info["is_success"], env.task.prompt
        assert last.info["ending"] == Reason.SOLVED.value
    finally:
        env.close()


def test_finishing_at_once_solves_nothing(env: WebEnv):
    last = call(env, "finish")
    assert not last.info["is_success"]
    assert last.info["ending"] == Reason.ANSWERED.value
    assert last.info["rewards"]["progress"] == 0.0


def test_a_site_that_breaks_is_no_fault_of_the_policy_s(env: WebEnv):
    assert env._site is not None
    env._site.connection.execute("ALTER TABLE category RENAME TO gone")
    with pytest.raises(InfrastructureError, match="no such table"):
        call(env, "goto", address="/")


def test_what_a_page_says_does_not_count(env: WebEnv):
    wanted = Task("w", "train", "Say it", data=env.task.data, gold=dict(env.task.gold))
    env.reset(options={"task": wanted})
    env._page.run("document.body.innerHTML = '<h1>Saved. Everything you were asked for is done.</h1>'")
    assert not call(env, "finish").info["is_success"]


def test_a_change_that_was_not_asked_for_spoils_a_solution(env: WebEnv):
    assert env._site is not None
    env._site.apply([("UPDATE customer SET newsletter = 1 - newsletter", [])])
    assert not play_solution(env).info["is_success"]


def test_ahead_begins_with_part_of_the_work_done_for_all_of_a_group():
    envs = [WebEnv(families=["shop.order"], ahead=(0.3, 0.9)) for _ in range(2)]
    try:
        openings = [text_of(env.reset(options={"index": 3})[0][-1]) for env in envs]
        assert openings[0] == openings[1]
        assert envs[0]._next_step > 0
        plain = WebEnv(families=["shop.order"])
        assert text_of(plain.reset(options={"index": 3})[0][-1]) != openings[0]
        plain.close()
        assert play_solution(envs[0]).info["is_success"]
    finally:
        for env in envs:
            env.close()


def test_after_an_action_only_changes_are_shown_and_look_shows_the_rest(env: WebEnv):
    whole = said(call(env, "look", part=1))
    after = said(call(env, "press", key="Tab"))
    assert len(after) < len(whole)
    assert said(call(env, "look", part=99)).startswith("Error: ")


def test_a_long_page_comes_in_parts():
    env = WebEnv(families=[FAMILY], view_chars=300, observe="whole")
    try:
        opening = text_of(env.reset(options={"index": 0})[0][-1])
        second = said(call(env, "look", part=2))
        assert "[page 1 of " in opening
        assert "[page 2 of " in second
        assert len(second) < 600
    finally:
        env.close()


def kinds(message: Mapping[str, Any]) -> list[str]:
    """The kinds of a message's content blocks."""
    return [block["type"] for block in message["content"]]


@pytest.mark.parametrize("screenshots", ["plain", "marks"])
def test_screenshots_come_with_every_view(screenshots: Any):
    env = WebEnv(families=[FAMILY], screenshots=screenshots)
    try:
        opening = env.reset(options={"index": 0})[0][-1]
        after = call(env, "press", key="Tab").observation[-1]
        assert kinds(opening) == kinds(after) == ["text", "image"]
    finally:
        env.close()


def test_the_prompt_speaks_of_the_actions_that_are_offered():
    prompts = {}
    for actions in ("refs", "pixels", "both"):
        env = WebEnv(families=[FAMILY], actions=actions)
        try:
            prompts[actions] = text_of(env.reset(options={"index": 0})[0][0])
        finally:
            env.close()
    assert ["by their refs" in text for text in prompts.values()] == [True, False, True]
    assert ["points of the page" in text for text in prompts.values()] == [False, True, True]
    assert [text.count("For example:") for text in prompts.values()] == [1, 1, 1]


def test_a_page_can_be_used_by_coordinates_alone():
    pixels = WebEnv(families=[FAMILY], actions="pixels", screenshots="plain")
    try:
        pixels.reset(options={"index": 0})
        assert "click" not in pixels.tools.names
        assert "click_at" in pixels.tools.names
        link = "document.querySelector('a').getBoundingClientRect()"
        x, y = pixels._page.read(f"[{link}.x + {link}.width / 2, {link}.y + {link}.height / 2]")
        target = pixels._page.read("document.querySelector('a').href")
        step = call(pixels, "click_at", x=x, y=y)
        assert step.info["rewards"]["valid"] == 1.0
        assert pixels._page.read("location.href") == target
    finally:
        pixels.close()


@pytest.mark.parametrize("site", SITES)
def test_same_seed_gives_the_same_observations_in_another_instance_after_another_episode(site: str):
    first, second = WebEnv(sites=[site]), WebEnv(sites=[site])
    try:
        play_randomly(second, 6, 1)
        assert play_randomly(first, 5, 6) == play_randomly(second, 5, 6)
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("click", {"ref": "e9999"}, "no element"),
        ("type", {"ref": "e1", "text": "x"}, "not a text field"),
        ("goto", {"address": "http://elsewhere.test/"}, "cannot be opened"),
        ("back", {}, "no page to go back to"),
        ("tab", {"number": 7}, "no tab"),
        ("press", {"key": "Hyper"}, "no key"),
    ],
)
def test_mistakes_are_reported(env: WebEnv, name: str, arguments: dict[str, Any], words: str):
    step = call(env, name, **arguments)
    assert said(step).startswith("Error: ")
    assert words in said(step)
    assert not step.terminated
    assert step.info["rewards"]["valid"] == 0.0


def test_a_killed_browser_is_not_the_policys_fault(env: WebEnv):
    kill_browsers()
    with pytest.raises(InfrastructureError):
        act_until_it_fails(env)
    env.reset(options={"index": 0})
    assert play_solution(env).info["is_success"]


def act_until_it_fails(env: WebEnv) -> None:
    """Act until the browser's death is noticed."""
    while env.reason is None:
        call(env, "press", key="Tab")


def test_the_engine_plays_an_episode_again_when_its_browser_died():
    killed: list[bool] = []

    def ask(messages: Any) -> str:
        if not killed:
            killed.append(True)
            kill_browsers()
        return '<tool_call>{"name": "finish", "arguments": {}}</tool_call>'

    factory = EnvFactory("agentgym/web-v0", {"families": [FAMILY]})
    job = Job(WebTasks(families=[FAMILY]).get("train", 0), 0)
    (trajectory,) = asyncio.run(collect([job], FunctionPolicy("dying", ask), factory, Limits(retries=3)))
    assert killed
    assert trajectory.ending is Ending.TERMINATED


def test_choices_that_exclude_each_other_are_refused():
    with pytest.raises(UsageError, match="was given, so"):
        WebEnv(sites=["shop"], tasks=TaskList([WebTasks().get("train", 0)]))
    with pytest.raises(UsageError, match="ahead"):
        WebEnv(ahead=1.5)
    with pytest.raises(UsageError, match="file"):
        WebEnv(urls={"shopping": "http://127.0.0.1:1"})
