"""WebArena-Verified: its tasks in our browser on a site of a test, and the verdict of its own evaluators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym.base.errors import BrokenTask, InfrastructureError, NoSolution, UsageError
from agentgym.core.messages import ToolCall
from agentgym.envs.webarena import WebArenaEnv, judge, solve
from agentgym.tasks.webarena import WebArenaTasks, data_set, entry_of
from tests.browsers import Site, need_browser
from tests.interop.arena import BUY, PRICE, SHOW, entry, open_shop, request_rule, response_rule, write
from tests.interop.theirs import failed_checks, imported
from tests.played import call

peers = pytest.mark.peers
NOWHERE = {"shopping": "http://127.0.0.1:9"}
ALL = {name: f"http://127.0.0.1:{port}" for port, name in enumerate(["shopping", "reddit", "gitlab", "map"], 7771)} | {
    "shopping_admin": "http://127.0.0.1:7780/admin",
    "wikipedia": "http://127.0.0.1:8888",
}
NEVER_ACCEPTED = {"webarena-verified/319", "webarena-verified/429"}
"""The expected response of one lacks a field that is compared; the other wants two last pages."""
EVERY = 7
"""Step between the tasks to test; all 812 were tested once."""


@pytest.fixture
def package() -> None:
    imported("webarena_verified")


@pytest.fixture
def shop(package: None) -> Iterator[Site]:
    need_browser()
    site = open_shop()
    yield site
    site.close()


@pytest.fixture
def env(shop: Site, tmp_path: Path) -> Iterator[WebArenaEnv]:
    sites = {"shopping": f"http://127.0.0.1:{shop.port}"}
    env = WebArenaEnv(file=write(tmp_path), sites=sites, record=tmp_path / "out")
    yield env
    env.close()


def goto(*addresses: str) -> list[ToolCall]:
    return [ToolCall("goto", {"address": address}) for address in addresses]


def buy(amount: str) -> list[ToolCall]:
    typed = ToolCall("type", {"ref": "e1", "text": amount})
    return [ToolCall("click", {"ref": "e1"}), typed, ToolCall("click", {"ref": "e2"})]


FOUND = {"task_type": "RETRIEVE", "status": "SUCCESS"}
SHOWN, BOUGHT = FOUND | {"task_type": "NAVIGATE"}, FOUND | {"task_type": "MUTATE"}
RUNS: dict[str, tuple[dict[str, Any], list[ToolCall], dict[str, Any], float]] = {
    "right answer": (PRICE, [], FOUND | {"retrieved_data": ["$12.00"]}, 1.0),
    "right answer in other words": (PRICE, [], FOUND | {"retrieved_data": [12]}, 1.0),
    "wrong answer": (PRICE, [], FOUND | {"retrieved_data": ["$13.00"]}, 0.0),
    "too many answers": (PRICE, [], FOUND | {"retrieved_data": ["$12.00", "$13.00"]}, 0.0),
    "giving up": (PRICE, [], FOUND | {"status": "NOT_FOUND_ERROR"}, 0.0),
    "right page": (SHOW, goto("/cart", "/lamp?ref=x"), SHOWN, 1.0),
    "page with a query that counts": (SHOW, goto("/lamp?color=red"), SHOWN, 0.0),
    "page that was left again": (SHOW, goto("/lamp", "/cart"), SHOWN, 0.0),
    "right change": (BUY, buy("3"), BOUGHT, 1.0),
    "wrong change": (BUY, buy("4"), BOUGHT, 0.0),
}


@peers
@pytest.mark.web
def test_right_runs_are_worth_1_and_wrong_ones_0(env: WebArenaEnv, tmp_path: Path):
    for name, (task, moves, response, worth) in RUNS.items():
        env.reset(options={"task": f"lamps/{task['task_id']}"})
        *_, ended = [call(env, move.name, **move.arguments) for move in [*moves, ToolCall("submit", response)]]
        assert (ended.info["rewards"]["outcome"], ended.reward) == (worth, worth), name
        assert ended.info["ending"] == ("solved" if worth else "answered"), name
    assert {file.name for file in (tmp_path / "out/1").iterdir()} == {"agent_response.json", "network.har"}


def log_of(*addresses: str) -> dict[str, Any]:
    """A HAR document of pages that were opened."""
    request = {"method": "GET", "headers": [{"name": "accept", "value": "text/html"}]}
    response = {"status": 200, "redirectURL": "", "headers": [], "content": {}}
    return {"log": {"entries": [{"request": request | {"url": url}, "response": response} for url in addresses]}}


@peers
def test_an_ungradable_task_is_broken_and_damage_by_the_agent_is_worth_0(package: None):
    task = entry(4, "Show it.", response_rule("mutate"), request_rule("", url="__GITLAB__/x"))
    with pytest.raises(BrokenTask, match="task 4"):
        judge(task, NOWHERE, FOUND, log_of("http://127.0.0.1:9"))
    with pytest.raises(InfrastructureError, match="recorded no request"):
        judge(PRICE, NOWHERE, FOUND, log_of())
    verdict = judge(PRICE, NOWHERE, {"task_type": 1, "status": [], "retrieved_data": "x"}, log_of("http://127.0.0.1:9"))
    assert (verdict.score, verdict.evaluators) == (0.0, (("AgentResponseEvaluator", "error"),))


@peers
def test_entries_that_cannot_be_played_are_left_out_with_the_reason(package: None, tmp_path: Path):
    elsewhere = entry(5, "Find it.", response_rule("retrieve", ["x"]), sites=["gitlab"], start_urls=["__GITLAB__"])
    broken = entry(6, "Find it.") | {"revision": 0}
    file = write(tmp_path, PRICE, elsewhere, broken)
    tasks = WebArenaTasks(file, NOWHERE)
    assert [tasks.get("test", index).id for index in range(tasks.size("test") or 0)] == ["lamps/1"]
    reasons = [entry.reason for entry in tasks.left_out]
    assert "no address for the site 'gitlab'; pass sites=" in reasons[0]
    assert "the package refuses it: revision" in reasons[1]
    with pytest.raises(UsageError, match="item 2: the package refuses it"):
        WebArenaTasks(file, NOWHERE, strict=True)


@peers
def test_the_tasks_of_the_package_are_all_read_and_their_expected_runs_accepted(package: None):
    tasks = WebArenaTasks(data_set(), ALL)
    assert (tasks.size("test"), tasks.left_out) == (812, ())
    assert WebArenaTasks(data_set(), ALL, subset="hard").size("test") == 258
    for index in range(0, 812, EVERY):
        task = tasks.get("test", index)
        rule, sites = entry_of(task), task.data["sites"]
        try:
            *opened, submitted = solve(rule, sites)
        except NoSolution:
            continue
        log = log_of(task.data["start"][0], *(call.arguments["address"] for call in opened))
        assert judge(rule, sites, submitted.arguments, log).score == float(task.id not in NEVER_ACCEPTED), task.id
        assert judge(rule, sites, None, log).score == 0.0, task.id
        other = dict(submitted.arguments) | {"status": "UNKNOWN_ERROR"}
        assert judge(rule, sites, other, log).score == 0.0, task.id


@peers
@pytest.mark.web
def test_it_keeps_what_environments_promise(shop: Site, tmp_path: Path):
    settings = {"file": str(write(tmp_path, PRICE, SHOW)), "sites": {"shopping": f"http://127.0.0.1:{shop.port}"}}
    assert failed_checks("webarena", settings, "gold-hidden-at-start", "solution-solves", "pickles") == set()


def solved(task: dict[str, Any]) -> list[tuple[str, Any]]:
    """The addresses that a solution opens, and what it submits."""
    return [(call.name, call.arguments.get("address") or call.arguments["retrieved_data"]) for call in solve(task, ALL)]


def test_a_solution_opens_what_is_expected_and_submits_the_first_of_several_choices():
    query = {"query_params": {"color": ["red", "blue"]}}
    rule = request_rule("/cart", url=["__SHOPPING__/a?b=1", "__SHOPPING__/c"])
    task = entry(9, "Do.", response_rule("retrieve", [["x", "y"], "z"]), request_rule("/lamp", **query), rule)
    assert solved(task) == [
        ("goto", "http://127.0.0.1:7771/lamp?color=red&color=blue"),
        ("goto", "http://127.0.0.1:7771/a?b=1"),
        ("submit", ["x", "z"]),
    ]
