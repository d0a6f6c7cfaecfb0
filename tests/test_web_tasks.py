"""Web tasks: their plans lead to the state that their effect describes, and nothing less does."""

from __future__ import annotations

from random import Random

import pytest

pytest.importorskip("starlette", reason="needs the [web] extra")
pytest.importorskip("jinja2", reason="needs the [web] extra")
pytest.importorskip("uvicorn", reason="needs the [web] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

from agentgym.errors import TaskError, UsageError
from agentgym.procedural import NoFit
from agentgym.task import Task
from agentgym.tasks.web.family import IMPOSSIBLE
from agentgym.tasks.web.sites import SiteServer, SiteState, digest_after, find_site
from agentgym.tasks.web.source import WebTasks, draw_task, load_families
from tests.sites_driver import Driver

SITES = ("shop", "forum", "tracker")
"""Sites whose plans need no scripts, so that they can be played over plain HTTP."""
FAMILIES = [name for name, one in load_families().items() if one.site in SITES]
SEEDS = (21, 8, 9)
"""One site of each split."""


def draw(name: str, seed: int) -> Task:
    """Draw one task of a family; where a site has nothing to ask for, the next one of its split is taken."""
    for number in range(60):
        try:
            return draw_task(load_families()[name], seed + 10 * number, Random(seed), "web/train/0", "train")
        except NoFit:
            continue
    raise AssertionError(f"{name} found nothing to ask near seed {seed}")


def play(task: Task) -> tuple[SiteState, str | None]:
    """Play a task's plan; return the state it led to, and the answer."""
    episode = SiteServer.shared().open(task.data["site"], task.data["seed"], task.data.get("options"))
    with Driver(episode) as driver:
        driver.play(task.gold["plan"], task.data["start"])
        return episode, driver.answer


def gold_digest(task: Task, effect: list | None = None) -> str:
    site, options = find_site(task.data["site"]), task.data.get("options")
    return digest_after(site, task.data["seed"], task.gold["effect"] if effect is None else effect, options)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", FAMILIES)
def test_plan_leads_to_the_state_and_answer_of_the_gold(name: str, seed: int):
    task = draw(name, seed)
    state, answer = play(task)
    wanted = SiteState(find_site(task.data["site"]), task.data["seed"], task.data.get("options"))
    wanted.apply([(sql, params) for sql, params in task.gold["effect"]])
    assert state.dump() == wanted.dump(), task.prompt
    assert state.digest() == gold_digest(task)
    assert answer == task.gold["answer"]
    state.close()
    wanted.close()


@pytest.mark.parametrize("name", FAMILIES)
def test_doing_nothing_is_not_the_gold_wherever_something_is_to_be_done(name: str):
    for seed in SEEDS:
        task = draw(name, seed)
        changed = gold_digest(task) != gold_digest(task, [])
        assert changed == bool(task.gold["effect"]), task.prompt


@pytest.mark.parametrize("name", FAMILIES)
def test_checks_are_unmet_at_the_start_and_met_at_the_end(name: str):
    for seed in SEEDS:
        task = draw(name, seed)
        state = SiteState(find_site(task.data["site"]), task.data["seed"], task.data.get("options"))
        before = [state.query(check["sql"])[0][0] for check in task.gold["checks"]]
        state.apply([(sql, params) for sql, params in task.gold["effect"]])
        after = [state.query(check["sql"])[0][0] for check in task.gold["checks"]]
        state.close()
        assert set(before) <= {0}, (task.prompt, before)
        assert set(after) <= {1}, (task.prompt, after)
        assert bool(before) == bool(task.gold["effect"])


def test_same_source_gives_the_same_tasks_and_finds_them_again():
    first, second = WebTasks(sites=["forum"], seed=5), WebTasks(sites=["forum"], seed=5)
    for split in first.splits:
        for index in range(6):
            task = first.get(split, index)
            assert task == second.get(split, index) == first.find(task.id)
            assert (task.split, task.data["site"]) == (split, "forum")
    assert WebTasks(sites=["forum"], seed=6).get("train", 0) != first.get("train", 0)


def test_splits_share_no_site_and_no_task():
    source = WebTasks(sites=SITES)
    tasks = {split: [source.get(split, index) for index in range(25)] for split in source.splits}
    sites = {split: {(task.data["site"], task.data["seed"]) for task in found} for split, found in tasks.items()}
    hashes = {split: {task.hash for task in found} for split, found in tasks.items()}
    for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert not sites[one] & sites[other]
        assert not hashes[one] & hashes[other]


def test_every_site_has_families_of_five_difficulties_and_tasks_go_round():
    for site in SITES:
        source = WebTasks(sites=[site])
        assert {one.level for one in source.families} == {1, 2, 3, 4, 5}
        assert [source.get("test", index).difficulty for index in range(5)] == [1, 2, 3, 4, 5]
    assert len(FAMILIES) >= 33
    only = WebTasks(families=["shop.order"], difficulty=3)
    assert only.get("train", 7).tags == ("shop.order", "L3", "shop")


def test_wrong_choices_are_named():
    with pytest.raises(UsageError, match="unknown site 'bank'"):
        WebTasks(sites=["bank"])
    with pytest.raises(UsageError, match=r"unknown family 'shop\.steal'"):
        WebTasks(families=["shop.steal"])
    with pytest.raises(UsageError, match="no family fits"):
        WebTasks(families=["shop.order"], difficulty=1)
    with pytest.raises(TaskError, match="ids look like web/train/0"):
        WebTasks(sites=["shop"]).find("web/train/x")


def test_some_tasks_cannot_be_done_and_say_how_to_tell():
    for name in ("shop.sold_out", "forum.edit_locked"):
        task = draw(name, 8)
        assert (task.gold["answer"], task.gold["effect"]) == (IMPOSSIBLE, [])
        assert IMPOSSIBLE in task.prompt
