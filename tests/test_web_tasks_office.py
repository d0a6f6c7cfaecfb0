"""The task families of the mail, admin and calendar sites: their plans, their effects and their checks agree."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

pytest.importorskip("starlette", reason="needs the [web] extra")
pytest.importorskip("uvicorn", reason="needs the [web] extra")
pytest.importorskip("jinja2", reason="needs the [web] extra")

from agentgym.procedural import NoFit
from agentgym.task import Task
from agentgym.tasks.web.family import FAMILIES, IMPOSSIBLE
from agentgym.tasks.web.sites import SiteEpisode, SiteServer, digest_after, find_site
from agentgym.tasks.web.source import WebTasks, draw_task, load_families
from tests.sites_driver import Driver

OFFICE = ("mail", "admin", "calendar")
NAMES = [name for name in load_families() if name.partition(".")[0] in OFFICE]
SEEDS = 4


@cache
def draws(name: str, count: int = SEEDS) -> list[Task]:
    tasks: list[Task] = []
    for number in range(400):
        site_seed = number * 10 + (0, 3, 8, 9)[number % 4]
        try:
            tasks.append(draw_task(FAMILIES[name], site_seed, Random(number), f"web/train/{number}", "train"))
        except NoFit:
            continue
        if len(tasks) == count:
            return tasks
    raise AssertionError(f"{name} found {len(tasks)} tasks in 400 sites")


def opened(task: Task) -> SiteEpisode:
    return SiteServer.shared().open(task.data["site"], task.data["seed"], task.data.get("options"))


def goal(task: Task) -> str:
    return digest_after(find_site(task.data["site"]), task.data["seed"], task.gold["effect"], task.data.get("options"))


def passed(episode: SiteEpisode, task: Task) -> list[bool]:
    return [bool(episode.query(check["sql"])[0][0]) for check in task.gold["checks"]]


@pytest.mark.parametrize("name", NAMES)
def test_the_plan_leads_to_the_state_that_the_effect_describes(name):
    for task in draws(name):
        episode = opened(task)
        with Driver(episode) as driver:
            start = episode.digest()
            assert not any(passed(episode, task)), task.prompt
            driver.play(task.gold["plan"], task.data["start"])
            assert episode.digest() == goal(task), task.prompt
            assert all(passed(episode, task)), task.prompt
            assert driver.answer == task.gold["answer"], task.prompt
            assert (goal(task) != start) == bool(task.gold["effect"]), task.prompt
        episode.close()


@pytest.mark.parametrize("name", NAMES)
def test_prompts_are_filled_in_and_tell_tasks_apart(name):
    tasks = draws(name, 8)
    assert all("{" not in task.prompt and "None" not in task.prompt for task in tasks)
    assert len({task.hash for task in tasks}) == len(tasks)
    assert len({(task.prompt, task.data["seed"]) for task in tasks}) == len(tasks)


@pytest.mark.parametrize("name", NAMES)
def test_tasks_with_an_effect_have_checks(name):
    assert all(task.gold["checks"] or not task.gold["effect"] for task in draws(name))


@pytest.mark.parametrize("site", OFFICE)
def test_every_site_has_ten_families_over_all_difficulties(site):
    families = WebTasks(sites=[site]).families
    assert len(families) >= 10
    assert {family.level for family in families} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("site", OFFICE)
def test_impossible_tasks_say_how_to_report_it(site):
    tasks = [task for name in NAMES if name.startswith(f"{site}.") for task in draws(name, 6)]
    impossible = [task for task in tasks if task.gold["answer"] == IMPOSSIBLE]
    assert impossible
    assert all("impossible" in task.prompt and not task.gold["effect"] for task in impossible)
    assert {task.tags[0] for task in tasks if "impossible" in task.prompt and task.gold["effect"]}


def test_the_same_seed_draws_the_same_task():
    for name in NAMES:
        assert draws.__wrapped__(name, 2) == draws(name, 2)
