"""Tasks on external sites, from WebArena's and WebShop's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentgym.tasks.web.files import WebFileTasks
from tests.rows import each_row
from tests.tasks.web.rows import arena, write

URLS = {"shopping": "http://127.0.0.1:9"}


def test_a_task_becomes_an_address_and_a_rule(tmp_path: Path):
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


UNGRADABLE: list[tuple[dict[str, Any], str]] = [
    ({"require_login": True}, "login"),
    ({"start_url": "__GITLAB__/x"}, "no address for the site 'gitlab'"),
    ({"eval": {"eval_types": ["llm_judge"]}}, "llm_judge"),
    ({"eval": {"eval_types": ["program_html"], "program_html": [{"url": "func:f()", "locator": ""}]}}, "program"),
    ({"eval": {"eval_types": ["url_match"], "reference_url": ""}}, "no reference_url"),
]


@each_row("changes, reason", UNGRADABLE)
def test_tasks_that_cannot_be_graded_are_left_out(changes: dict[str, Any], reason: str, tmp_path: Path):
    tasks = WebFileTasks(write(tmp_path, arena(1), arena(2, **changes)), URLS)
    assert tasks.size("test") == 1
    (left_out,) = tasks.left_out
    assert left_out.where.endswith("tasks.json: item 1")
    assert reason in left_out.reason


def test_a_goal_of_webshop_is_its_product_with_its_options(tmp_path: Path):
    goal = {"instruction": "buy a red lamp", "asin": "B01", "options": {"color": "red"}, "price_upper": 20}
    tasks = WebFileTasks(write(tmp_path, goal, {"instruction": "no product"}), {"webshop": "http://127.0.0.1:9"})
    assert tasks.get("test", 0).gold == {"bought": {"asin": "B01", "options": ["red"]}}
    assert "asin" in tasks.left_out[0].reason
