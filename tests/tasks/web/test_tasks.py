"""Web tasks: their effects and checks agree. `tests/envs/web/test_env.py` plays their plans in a browser."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="needs the [web] extra")
pytest.importorskip("jinja2", reason="needs the [web] extra")
pytest.importorskip("uvicorn", reason="needs the [web] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

from agentgym.core.task import Task
from agentgym.tasks.web.sites import SiteState, digest_after, find_site
from agentgym.tasks.web.source import SITES, WebTasks, load_families
from tests.refusals import sampled


def met(state: SiteState, task: Task) -> set[bool]:
    return {bool(state.query(check["sql"])[0][0]) for check in task.gold["checks"]}


@sampled(1, 3)
def test_the_effect_of_the_gold_meets_its_checks_and_nothing_else_does(count: int):
    for task in (WebTasks(families=[name]).get("train", number) for name in load_families() for number in range(count)):
        site, seed, options = find_site(task.data["site"]), task.data["seed"], task.data.get("options")
        state = SiteState(site, seed, options)
        start = state.digest()
        assert met(state, task) <= {False}, task.prompt
        state.apply(task.gold["effect"])
        assert met(state, task) <= {True}, task.prompt
        assert state.digest() == digest_after(site, seed, task.gold["effect"], options)
        # Tasks with an effect have checks, and doing nothing does not solve them.
        assert (state.digest() != start) == bool(task.gold["effect"]) == bool(task.gold["checks"]), task.prompt
        state.close()


def test_every_site_has_families_of_all_levels_that_take_turns():
    for site in SITES:
        source = WebTasks(sites=[site])
        assert len(source.families) >= 10
        assert {family.level for family in source.families} == {1, 2, 3, 4, 5}
        assert [source.get("test", index).difficulty for index in range(5)] == [1, 2, 3, 4, 5]
    assert WebTasks(families=["shop.order"], difficulty=3).get("train", 7).tags == ("shop.order", "L3", "shop")
