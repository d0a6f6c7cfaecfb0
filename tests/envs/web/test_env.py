"""The web environment in a real browser: solutions, cheats, failures, and the views of a policy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from agentgym.base.errors import InfrastructureError
from agentgym.core.endings import Reason
from agentgym.core.messages import text_of
from agentgym.core.task import Task
from agentgym.envs.web import WebEnv
from agentgym.tasks.web.source import SITES, load_families
from tests.browsers import need_browser
from tests.played import call, play_solution, said
from tests.rows import each_row
from tests.web_play import kill_browsers

pytestmark = [pytest.mark.real, pytest.mark.web]

need_browser()

FAMILY = "shop.wish"
"""A short task that changes the state."""


@pytest.fixture
def env() -> Iterator[WebEnv]:
    env = WebEnv(families=[FAMILY])
    env.reset(options={"index": 0})
    yield env
    env.close()


def opening(env: WebEnv, index: int = 0) -> str:
    return text_of(env.reset(options={"index": index})[0][-1])


@pytest.mark.parametrize("nightly", [False, pytest.param(True, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("site", SITES)
def test_solutions_solve_in_the_browser(site: str, nightly: bool):
    """A family of each level; nightly every family."""
    families = [family for family in load_families().values() if family.site == site]
    of_levels = {family.level: family for family in families}
    for name in (family.name for family in (families if nightly else of_levels.values())):
        with closing(WebEnv(families=[name])) as env:
            opening(env)
            last = play_solution(env)
            assert last.info["is_success"], env.task.prompt
            assert last.info["ending"] == Reason.SOLVED.value


@pytest.mark.parametrize("site", SITES)
def test_solutions_solve_by_coordinates_alone(site: str):
    with closing(WebEnv(sites=[site], actions="pixels", max_turns=100)) as env:
        opening(env, 1)
        assert play_solution(env).info["is_success"], env.task.prompt


GLUED = """(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const pairs = [];
  for (let last = null, node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!/[a-z]/i.test(node.data) || node.parentElement.closest('select, script')) continue;
    if (!node.parentElement.checkVisibility()) continue;
    if (last) pairs.push([last.data.trim().split(/\\s+/).pop(), node.data.trim().split(/\\s+/)[0]]);
    last = node;
  }
  return pairs;
})()"""


@each_row(
    "site, paths",
    [
        ("mail", ("/", "/contacts")),
        ("tracker", ("/issues", "/")),
        ("shop", ("/", "/cart", "/account/orders")),
        ("forum", ("/", "/members")),
        ("admin", ("/", "/customers", "/nowhere")),
        ("calendar", ("/month", "/agenda")),
    ],
)
def test_pages_show_the_date_and_keep_words_apart(site: str, paths: tuple[str, ...]):
    with closing(WebEnv(sites=[site])) as env:
        opening(env)
        assert env._site is not None
        for path in paths:
            call(env, "goto", address=path)
            assert env._view is not None
            assert f"Today: {env._site.now:%A}, {env._site.now.day} {env._site.now:%B %Y, %H:%M}" in env._view.text
            words = set(env._view.text.split())
            assert [pair for pair in env._page.read(GLUED) if "".join(pair) in words] == []


def test_only_the_state_of_the_server_counts(env: WebEnv):
    env.reset(options={"task": Task("w", "train", "Say it", data=env.task.data, gold=dict(env.task.gold))})
    env._page.run("document.body.innerHTML = '<h1>Saved. Everything you were asked for is done.</h1>'")
    last = call(env, "finish")
    assert not last.info["is_success"]
    assert last.info["ending"] == Reason.ANSWERED.value
    assert last.info["rewards"]["progress"] == 0.0


def test_an_additional_change_spoils_a_solution(env: WebEnv):
    assert env._site is not None
    env._site.apply([("UPDATE customer SET newsletter = 1 - newsletter", [])])
    assert not play_solution(env).info["is_success"]


def test_a_broken_site_is_an_infrastructure_failure(env: WebEnv):
    assert env._site is not None
    env._site.connection.execute("ALTER TABLE category RENAME TO gone")
    with pytest.raises(InfrastructureError, match="no such table"):
        call(env, "goto", address="/")


def test_a_killed_browser_is_an_infrastructure_failure(env: WebEnv):
    kill_browsers()
    with pytest.raises(InfrastructureError):
        [call(env, "press", key="Tab") for _ in range(30)]  # until the browser's death is noticed
    env.reset(options={"index": 0})
    assert play_solution(env).info["is_success"]


MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    ("click", {"ref": "e9999"}, "no element"),
    ("type", {"ref": "e1", "text": "x"}, "not a text field"),
    ("goto", {"address": "http://elsewhere.test/"}, "cannot be opened"),
    ("back", {}, "no page to go back to"),
    ("press", {"key": "Hyper"}, "no key"),
]


@each_row("name, arguments, words", MISTAKES)
def test_mistakes_are_explained(env: WebEnv, name: str, arguments: dict[str, Any], words: str):
    step = call(env, name, **arguments)
    assert said(step).startswith("Error: ")
    assert words in said(step)
    assert not step.terminated
    assert step.info["rewards"]["valid"] == 0.0


def test_a_page_can_be_used_by_coordinates_alone():
    with closing(WebEnv(families=[FAMILY], actions="pixels", screenshots="plain")) as pixels:
        opening(pixels)
        assert "click" not in pixels.tools.names
        link = "document.querySelector('a').getBoundingClientRect()"
        x, y = pixels._page.read(f"[{link}.x + {link}.width / 2, {link}.y + {link}.height / 2]")
        target = pixels._page.read("document.querySelector('a').href")
        step = call(pixels, "click_at", x=x, y=y)
        assert [block["type"] for block in step.observation[-1]["content"]] == ["text", "image"]  # type: ignore
        assert pixels._page.read("location.href") == target
