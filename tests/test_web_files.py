"""Tasks on sites of one's own: what is read from WebArena's and WebShop's files, and how they are graded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym.envs.web import WebEnv
from agentgym.envs.web.by_page import answer_holds, bought, text_holds, url_holds
from agentgym.errors import UsageError
from agentgym.tasks.web.files import WebFileTasks
from tests.browsers import Site, need_browser
from tests.web_play import call, said

URLS = {"shopping": "http://127.0.0.1:9"}


def arena(task_id: int = 0, **changes: Any) -> dict[str, Any]:
    """A task in WebArena's form."""
    rule = {"eval_types": ["string_match"], "reference_answers": {"exact_match": "$12.00"}}
    return {
        "sites": ["shopping"],
        "task_id": task_id,
        "start_url": "__SHOPPING__",
        "intent": "What does the lamp cost?",
        "require_login": False,
        "eval": rule,
    } | changes


def write(folder: Path, *entries: Any) -> Path:
    file = folder / "tasks.json"
    file.write_text(json.dumps(list(entries)), encoding="utf-8")
    return file


def html_rule(**target: Any) -> dict[str, Any]:
    return {"eval_types": ["program_html"], "program_html": [target]}


def test_a_task_becomes_an_address_and_what_is_asked_of_it(tmp_path: Path):
    rule = {
        "eval_types": ["string_match", "url_match"],
        "reference_answers": {"must_include": ["lamp"]},
        "reference_url": "__SHOPPING__/a |OR| __SHOPPING__/b",
    }
    task = WebFileTasks(write(tmp_path, arena(7, eval=rule)), URLS).get("test", 0)
    assert (task.id, task.prompt) == ("tasks/test/7", "What does the lamp cost?")
    assert task.data == {"url": "http://127.0.0.1:9", "allowed": ["http://127.0.0.1:9"]}
    assert task.gold == {
        "answer": {"must_include": ["lamp"]},
        "urls": ["http://127.0.0.1:9/a", "http://127.0.0.1:9/b"],
    }


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"require_login": True}, "login"),
        ({"start_url": "__GITLAB__/x"}, "no address for the site 'gitlab'"),
        ({"start_url": "file:///etc/passwd"}, "not a web address"),
        ({"eval": {"eval_types": ["llm_judge"]}}, "llm_judge"),
        ({"eval": {"eval_types": ["string_match"], "reference_answers": {"judge": "x"}}}, "'judge'"),
        (
            {"eval": html_rule(url="func:last_order()", locator="", required_contents={"must_include": ["x"]})},
            "program",
        ),
        (
            {"eval": html_rule(url="last", locator="fetch('/x')", required_contents={"must_include": ["x"]})},
            "its page is read by a program",
        ),
        ({"eval": {"eval_types": ["url_match"], "reference_url": ""}}, "no reference_url"),
    ],
)
def test_what_cannot_be_graded_is_left_out_with_the_reason(tmp_path: Path, changes: dict[str, Any], reason: str):
    tasks = WebFileTasks(write(tmp_path, arena(1), arena(2, **changes)), URLS)
    assert tasks.size("test") == 1
    (left_out,) = tasks.left_out
    assert left_out.where.endswith("tasks.json: item 1")
    assert reason in left_out.reason


def test_a_goal_of_webshop_asks_for_its_product_with_its_options(tmp_path: Path):
    goal = {
        "instruction": "buy a red lamp under 20 dollars",
        "asin": "B01",
        "options": {"color": "red"},
        "price_upper": 20,
    }
    tasks = WebFileTasks(write(tmp_path, goal, {"instruction": "no product"}), {"webshop": "http://127.0.0.1:9"})
    assert tasks.get("test", 0).gold == {"bought": {"asin": "B01", "options": ["red"]}}
    assert "asin" in tasks.left_out[0].reason


def test_files_that_are_something_else_are_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="no file"):
        WebFileTasks(tmp_path / "none.json", URLS)
    with pytest.raises(UsageError, match="item 0: it has neither"):
        WebFileTasks(write(tmp_path, {"question": "x"}), URLS)
    with pytest.raises(UsageError, match=r"no entry of 1 can be used; .* needs a login"):
        WebFileTasks(write(tmp_path, arena(require_login=True)), URLS)
    with pytest.raises(UsageError, match="address of site"):
        WebFileTasks(write(tmp_path, arena()), {"shopping": "shop"})


@pytest.mark.parametrize(
    ("said", "wanted", "holds"),
    [
        ("$12.00", {"exact_match": ["$12.00"]}, True),
        (' "Red Lamp" ', {"exact_match": ["red lamp"]}, True),
        ("about $12.00", {"exact_match": ["$12.00"]}, False),
        ("It takes 5 days.", {"must_include": ["5"]}, True),
        ("It takes 15 days.", {"must_include": ["5"]}, False),
        ("Ada and Bo", {"must_include": ["ada", "bo"]}, True),
        ("Ada", {"must_include": ["ada", "bo"]}, False),
        ("blue", {"must_include": ["red |OR| blue"]}, True),
        ("The distance is 1,200 km", {"fuzzy_match": ["1200 km"]}, True),
        ("impossible", {"fuzzy_match": ["N/A"]}, True),
        ("N/A", {"exact_match": ["12"]}, False),
    ],
)
def test_answers_are_compared_as_the_file_says(said: str, wanted: dict[str, list[str]], holds: bool):
    assert answer_holds(said, wanted) is holds


def test_addresses_and_pages_are_compared_as_the_file_says():
    assert url_holds("http://a/shop/lamp/?q=1&r=2", ["http://a/shop/lamp?q=1"])
    assert not url_holds("http://a/shop/lamp", ["http://a/shop/lamp?q=1"])
    assert not url_holds("http://b/shop/lamp", ["http://a/shop/lamp"])
    assert text_holds("Order &amp; more\n  lamp", {"must_include": ["Order & more lamp", "x |OR| lamp"]})
    assert not text_holds("lamp", {"exact_match": ["a lamp"]})
    assert bought("http://a/done/s1/B01/%7B'color':'red'%7D", "b01", ["Red"])
    assert not bought("http://a/item_page/s1/B01/red", "B01", ["red"])


@pytest.fixture
def site() -> Iterator[Site]:
    need_browser()
    site = Site()
    site.pages["/"] = "<h1>Shop</h1><a href='/lamp'>Lamp</a><a href='http://localhost:1/'>Away</a>"
    site.pages["/lamp"] = "<p id='price'>$12.00</p><form action='/done'><button>Buy</button></form>"
    site.pages["/done"] = "<div class='note'>Thank you for the lamp</div>"
    site.pages["/account"] = "<ul><li class='order'>lamp</li></ul>"
    yield site
    site.close()


@pytest.mark.web
def test_a_site_by_address_is_played_and_graded_by_what_the_browser_sees(tmp_path: Path, site: Site):
    lamp = {"must_include": ["lamp"]}
    rule = {
        "eval_types": ["string_match", "url_match", "program_html"],
        "reference_answers": {"must_include": ["12.00"]},
        "reference_url": "__SHOPPING__/done",
        "program_html": [
            {"url": "last", "locator": "document.querySelector('.note').innerText", "required_contents": lamp},
            {"url": "__SHOPPING__/account", "locator": "", "required_contents": lamp},
        ],
    }
    urls = {"shopping": f"http://127.0.0.1:{site.port}"}
    env = WebEnv(file=write(tmp_path, arena(eval=rule)), urls=urls, split="test")
    try:
        env.reset(options={"index": 0})
        early = call(env, "answer", text="$12.00")
        assert not early.info["is_success"]
        assert 0 < early.info["rewards"]["progress"] < 1
        env.reset(options={"index": 0})
        assert "cannot be opened" in said(call(env, "goto", address="http://localhost:1/"))
        assert env._view is not None
        call(env, "click", ref=env._view.find("link", "Lamp").ref)
        call(env, "click", ref=env._view.find("button", "Buy").ref)
        last = call(env, "answer", text="It costs $12.00")
        assert last.info["is_success"]
        assert last.info["ending"] == "solved"
    finally:
        env.close()
