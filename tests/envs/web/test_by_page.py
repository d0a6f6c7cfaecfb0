"""External sites: the comparison of answers and pages, and an episode in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentgym.envs.web import WebEnv
from agentgym.envs.web.by_page import answer_holds, bought, text_holds, url_holds
from tests.browsers import Site, need_browser
from tests.played import call, said
from tests.tasks.web.rows import arena, write

ANSWERS = [
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
]


def test_answers_addresses_and_pages_are_compared_by_rule():
    assert [row for row in ANSWERS if answer_holds(row[0], row[1]) is not row[2]] == []
    assert url_holds("http://a/shop/lamp/?q=1&r=2", ["http://a/shop/lamp?q=1"])
    assert not url_holds("http://a/shop/lamp", ["http://a/shop/lamp?q=1"])
    assert not url_holds("http://b/shop/lamp", ["http://a/shop/lamp"])
    assert text_holds("Order &amp; more\n  lamp", {"must_include": ["Order & more lamp", "x |OR| lamp"]})
    assert not text_holds("lamp", {"exact_match": ["a lamp"]})
    assert bought("http://a/done/s1/B01/%7B'color':'red'%7D", "b01", ["Red"])
    assert not bought("http://a/item_page/s1/B01/red", "B01", ["red"])


@pytest.mark.web
@pytest.mark.real
def test_an_external_site_is_graded_by_its_pages(tmp_path: Path):
    need_browser()
    site = Site()
    site.pages["/"] = "<h1>Shop</h1><a href='/lamp'>Lamp</a><a href='http://localhost:1/'>Away</a>"
    site.pages["/lamp"] = "<p id='price'>$12.00</p><form action='/done'><button>Buy</button></form>"
    site.pages["/done"] = "<div class='note'>Thank you for the lamp</div>"
    site.pages["/account"] = "<ul><li class='order'>lamp</li></ul>"
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
        site.close()
