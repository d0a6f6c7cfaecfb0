"""Web tasks: their plans lead exactly to the state that their effect describes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random

import pytest

pytest.importorskip("starlette", reason="needs the [web] extra")
pytest.importorskip("jinja2", reason="needs the [web] extra")
pytest.importorskip("uvicorn", reason="needs the [web] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

from agentgym.core.task import Task
from agentgym.procedural import NoFit
from agentgym.tasks.web.family import IMPOSSIBLE
from agentgym.tasks.web.sites import SiteServer, SiteState, digest_after, find_site
from agentgym.tasks.web.source import WebTasks, draw_task, load_families
from tests.refusals import sampled
from tests.tasks.web.sites_driver import Driver

SITES = ("shop", "forum", "tracker", "mail", "admin", "calendar")
NAMES = [name for site in SITES for name in load_families() if name.startswith(f"{site}.")]
"""Families whose plans need no scripts, so that they can be played over plain HTTP."""


@cache
def draw(name: str, number: int) -> Task:
    """Draw a task of a family, on the first site from a seed on that offers one."""
    seed = (21, 8, 9, 3)[number % 4] + 400 * number
    for later in range(100):
        try:
            return draw_task(load_families()[name], seed + 10 * later, Random(seed), f"web/train/{number}", "train")
        except NoFit:
            continue
    raise AssertionError(f"{name} has nothing to ask near seed {seed}")


def draw_tasks(count: int) -> Iterator[Task]:
    """Yield `count` tasks of each family; if that is 1, of every fifth family."""
    return (draw(name, number) for name in (NAMES if count > 1 else NAMES[::5]) for number in range(count))


def met(state: SiteState, task: Task) -> set[bool]:
    return {bool(state.query(check["sql"])[0][0]) for check in task.gold["checks"]}


@sampled(1, 3)
def test_plans_lead_to_the_state_and_answer_of_the_gold(count: int):
    for task in draw_tasks(count):
        site, seed, options = find_site(task.data["site"]), task.data["seed"], task.data.get("options")
        start, goal = (digest_after(site, seed, effect, options) for effect in ([], task.gold["effect"]))
        episode = SiteServer.shared().open(task.data["site"], seed, options)
        with Driver(episode) as driver:
            assert episode.digest() == start
            assert met(episode, task) <= {False}, task.prompt
            driver.play(task.gold["plan"], task.data["start"])
            assert episode.digest() == goal, task.prompt
            assert met(episode, task) <= {True}, task.prompt
            assert driver.answer == task.gold["answer"], task.prompt
        episode.close()
        # Tasks with an effect have checks, and doing nothing does not solve them.
        assert (goal != start) == bool(task.gold["effect"]) == bool(task.gold["checks"]), task.prompt


@pytest.mark.nightly
def test_prompts_are_filled_in_and_distinct():
    for name in NAMES:
        tasks = [draw(name, number) for number in range(8)]
        assert all("{" not in task.prompt and "None" not in task.prompt for task in tasks)
        assert len({task.hash for task in tasks}) == len({(task.prompt, task.data["seed"]) for task in tasks}) == 8


def test_every_site_has_families_of_all_levels_that_take_turns():
    for site in SITES:
        source = WebTasks(sites=[site])
        assert len(source.families) >= 10
        assert {family.level for family in source.families} == {1, 2, 3, 4, 5}
        assert [source.get("test", index).difficulty for index in range(5)] == [1, 2, 3, 4, 5]
    assert WebTasks(families=["shop.order"], difficulty=3).get("train", 7).tags == ("shop.order", "L3", "shop")
    task = WebTasks(sites=["forum"]).get("validation", 3)
    assert (task.split, task.data["site"]) == ("validation", "forum")


def test_impossible_tasks_explain_how_to_report_it():
    for name in ("shop.sold_out", "forum.edit_locked"):
        task = draw(name, 1)
        assert (task.gold["answer"], task.gold["effect"]) == (IMPOSSIBLE, [])
        assert IMPOSSIBLE in task.prompt


@pytest.mark.nightly
@pytest.mark.parametrize("site", ["mail", "admin", "calendar"])
def test_some_tasks_that_mention_impossibility_are_possible(site: str):
    tasks = [draw(name, number) for name in NAMES if name.startswith(f"{site}.") for number in range(6)]
    impossible = [task for task in tasks if task.gold["answer"] == IMPOSSIBLE]
    assert impossible
    assert all("impossible" in task.prompt and not task.gold["effect"] for task in impossible)
    assert [task for task in tasks if "impossible" in task.prompt and task.gold["effect"]]
