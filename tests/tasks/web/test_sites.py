"""The bundled sites: deterministic, separate per episode, and robust against hostile requests."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the [web] extra")
pytest.importorskip("jinja2", reason="needs the [web] extra")
pytest.importorskip("uvicorn", reason="needs the [web] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

import httpx

from agentgym.base.errors import TaskError, UsageError
from agentgym.tasks.web.sites import SiteEpisode, SiteServer, SiteState, clock_of, digest_after, find_site
from agentgym.tasks.web.sites.words import SiteWords, part_of, seed_split
from tests.refusals import sampled
from tests.tasks.web.sites_driver import Driver, parse

SITES = ("shop", "forum", "tracker", "mail", "admin", "calendar")
TABLES = {"shop": "wishlist", "forum": "subscription", "tracker": "watching"}
"""A table of each site whose content is state."""
FORM = {"content-type": "application/x-www-form-urlencoded"}
every_site = pytest.mark.parametrize("site", SITES)

Episodes = Callable[..., SiteEpisode]


@pytest.fixture
def episodes() -> Iterator[Episodes]:
    opened: list[SiteEpisode] = []

    def open_episode(site: str, seed: int = 3, options: dict | None = None) -> SiteEpisode:
        opened.append(SiteServer.shared().open(site, seed, options))
        return opened[-1]

    yield open_episode
    for episode in opened:
        episode.close()


def crawl(episode: SiteEpisode, most: int = 60) -> dict[str, str]:
    """Follow links, breadth first; return the pages by address."""
    pages: dict[str, str] = {}
    paths = ["/"]
    with Driver(episode) as driver:
        for path in paths:
            if path not in pages and len(pages) < most:
                driver.goto(path)
                assert driver.status == 200, f"{path}: {driver.status}"
                pages[path] = driver.html
                paths += [element.attributes["href"] for element in driver.page if element.role == "link"]
    return pages


@every_site
def test_same_seed_gives_the_same_pages_and_reading_changes_nothing(site: str, episodes: Episodes):
    episode = episodes(site)
    before = episode.digest()
    pages = crawl(episode, 30)
    assert len(pages) == 30
    assert crawl(episodes(site), 30) == pages
    assert episode.digest() == before == digest_after(find_site(site), 3, [])
    assert len({SiteState(find_site(site), seed).digest() for seed in range(4)}) == 4


@sampled(30, 150)
@every_site
def test_links_and_controls_have_distinct_names(site: str, count: int, episodes: Episodes):
    for path, html in crawl(episodes(site, 8), count).items():
        page = parse(html)
        ids = [element.attributes["id"] for element in page if "id" in element.attributes]
        assert len(ids) == len(set(ids)), path
        controls = [element for element in page if element.role and element.attributes.get("type") != "hidden"]
        assert [(control.tag, control.attributes) for control in controls if not control.name(page)] == [], path
        boxes = [control.name(page) for control in controls if control.role == "checkbox"]
        assert len(boxes) == len(set(boxes)), path
        if site in ("shop", "forum", "tracker"):
            targets: dict[str, set[str]] = {}
            for link in (control for control in controls if control.role == "link"):
                targets.setdefault(link.name(page), set()).add(link.attributes["href"])
            assert {name: paths for name, paths in targets.items() if len(paths) > 1} == {}, path


def test_episodes_do_not_share_state(episodes: Episodes):
    for site, table in TABLES.items():
        changed, other = episodes(site), episodes(site)
        before = other.digest()
        changed.apply([(f"DELETE FROM {table}", [])])
        assert changed.digest() != before
        assert other.digest() == before


def test_requests_without_an_open_episode_are_not_found(episodes: Episodes):
    episode = episodes("shop")
    with Driver(episode) as driver:
        headers = {"host": "shop.test"}
        for token in ({}, {"x-agentgym-episode": "nonsense"}):
            with httpx.Client(base_url=driver.client.base_url, headers=headers | token) as client:
                assert client.get("/").status_code == 404
        assert driver.client.get("/", headers={"host": "forum.test"}).status_code == 404
        episode.close()
        driver.goto("/")
        assert driver.status == 404


def test_undone_actions_and_volatile_tables_do_not_change_the_digest(episodes: Episodes):
    episode = episodes("shop", options={"cart": "empty"})
    before = episode.digest()
    with Driver(episode) as driver:
        driver.goto("/product/1")
        driver.take({"do": "click", "role": "button", "name": "Add to wish list"})
        assert episode.digest() != before
        driver.take({"do": "click", "role": "button", "name": "Remove from wish list"})
    assert episode.digest() == before
    episode.apply([("INSERT INTO delivery VALUES (1, 1, 'express')", [])])
    assert episode.digest() == before
    assert "delivery" not in episode.dump()


INJECTIONS = (
    "'; DROP TABLE post; --",
    '" OR 1=1 --',
    "<script>alert(1)</script>",
    "{{ 7*7 }}",
    "%00\x00",
    "\ud83d",
    "ⅷ²",
)
NOWHERE = (
    *("/nowhere", "/static/../site.py", "/static/x", "/product/999999999", "/product/99999999999999999999", "/t/0"),
    *("/issue/NONE-1", "/issue/%00", "/u/nobody", "/%ff%fe", "/account/orders/1/return/1", "/p/x/edit"),
)


def test_injections_are_shown_as_text_and_change_nothing_else(episodes: Episodes):
    episode = episodes("forum")
    with Driver(episode) as driver:
        thread = episode.query("SELECT min(id) FROM thread WHERE NOT locked")[0][0]
        for text in (injection.encode("utf-8", "replace") for injection in INJECTIONS):
            driver.client.get("/search", params={"q": text, "board": "' OR 1"})
            driver.client.get("/members", params={"sort": "posts; DROP TABLE post", "name": text})
            driver.goto(f"/t/{thread}")
            tables = {name: len(rows) for name, rows in episode.dump().items()}
            posted = driver.client.post(f"/t/{thread}/reply", data={"body": b"x" + text})
            assert posted.status_code == 200
            assert "<script>alert" not in posted.text
            after = {name: len(rows) for name, rows in episode.dump().items()}
            assert after == tables | {"post": tables["post"] + 1}


def test_wrong_addresses_and_methods_give_error_pages(episodes: Episodes):
    for site in ("shop", "forum", "tracker"):
        episode = episodes(site)
        before = episode.digest()
        with Driver(episode) as driver:
            for path in NOWHERE:
                assert driver.client.get(path).status_code == 404, path
                assert driver.client.post(path, data={"a": "b"}).status_code in (404, 405), path
            assert driver.client.post("/", data={"a": "b"}).status_code == 405
            assert driver.client.request("DELETE", "/").status_code == 405
            assert driver.client.get("/?page=²&page=-1&sort=x&min=9e9").status_code == 200
        assert episode.digest() == before


def test_huge_and_foreign_bodies_are_refused_and_the_site_stays_up(
    episodes: Episodes, caplog: pytest.LogCaptureFixture
):
    episode = episodes("shop")
    before = episode.digest()
    many = "&".join(f"a{number}=1" for number in range(9000))
    with socket.create_connection(("127.0.0.1", SiteServer.shared().port), timeout=20) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 as if over https\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 400")
    with Driver(episode) as driver:
        refused: tuple[tuple[dict[str, Any], int], ...] = (
            ({"data": {"email": "x" * 2_000_000}}, 413),
            ({"content": many}, 415),
            ({"content": many, "headers": FORM}, 400),
            ({"files": {"email": b"x"}}, 415),
            ({"content": b"\xff\xfe=%zz", "headers": FORM}, 422),
        )
        for arguments, status in refused:
            assert driver.client.post("/account/settings", **arguments).status_code == status
        driver.goto("/")
        assert driver.status == 200
    assert episode.digest() == before
    assert caplog.records == []


def test_an_episode_that_fills_its_database_gets_an_error_page(episodes: Episodes):
    episode = episodes("forum")
    thread = episode.query("SELECT min(id) FROM thread WHERE NOT locked")[0][0]
    # SQLite raises this limit to the current size, so no page can be added.
    episode.query("PRAGMA max_page_count = 1")
    with Driver(episode) as driver:
        statuses = {driver.client.post(f"/t/{thread}/reply", data={"body": "x" * 3900}).status_code for _ in range(9)}
        assert 507 in statuses
        driver.goto("/")
        assert driver.status == 200


def test_many_clients_at_once_lose_nothing(episodes: Episodes):
    episode = episodes("forum")
    thread = episode.query("SELECT min(id) FROM thread WHERE NOT locked")[0][0]
    before = episode.query("SELECT count(*) FROM post")[0][0]

    def post(number: int) -> None:
        with Driver(episode) as driver:
            for turn in range(5):
                driver.client.post(f"/t/{thread}/reply", data={"body": f"{number}/{turn}"})

    with ThreadPoolExecutor(8) as clients:
        list(clients.map(post, range(8)))
    assert episode.query("SELECT count(*) FROM post")[0][0] == before + 40


def test_a_mistake_is_shown_next_to_its_field_and_changes_nothing(episodes: Episodes):
    episode = episodes("shop")
    before = episode.digest()
    with Driver(episode) as driver:
        driver.goto("/account/addresses/new")
        driver.take({"do": "fill", "role": "textbox", "name": "Postcode", "text": "12 <b>"})
        driver.take({"do": "click", "role": "button", "name": "Save address"})
        assert driver.status == 422
        field = driver.find({"role": "textbox", "name": "Postcode"}).attributes
        texts = {element.attributes.get("id"): element.text for element in driver.page}
        assert "five digits" in texts[field["aria-describedby"]]
        assert field["value"] == "12 <b>"
    assert episode.digest() == before


def test_pages_load_nothing_from_other_sites(episodes: Episodes):
    for site in SITES:
        with Driver(episodes(site)) as driver:
            reply = driver.client.get("/")
            assert "default-src 'none'" in reply.headers["content-security-policy"]
            assert not re.findall(r"(?:src|href|action)=\"(?:https?:)?//", reply.text)
            for asset in re.findall(r"(/static/[^\"]+)", reply.text):
                assert driver.client.get(asset).status_code == 200


def test_a_bug_that_breaks_a_page_is_recorded_in_the_episode(episodes: Episodes):
    episode = episodes("shop")
    with Driver(episode) as driver:
        episode.connection.execute("ALTER TABLE category RENAME TO gone")
        driver.goto("/")
        assert driver.status == 500
    assert episode.broken is not None
    assert "no such table" in episode.broken


def test_a_folder_is_served_under_a_host_name(tmp_path: Path, episodes: Episodes):
    (tmp_path / "page.html").write_text("<p>plain</p>")
    SiteServer.shared().serve_folder("folder.test", tmp_path)
    with Driver(episodes("shop")) as driver:
        assert driver.client.get("/page.html", headers={"host": "folder.test"}).text == "<p>plain</p>"
        assert driver.client.get("/../secret", headers={"host": "folder.test"}).status_code == 404


FORKING = """
import os
from agentgym.tasks.web.sites import SiteServer
port = SiteServer.shared().port
child = os.fork()
if child == 0:
    assert SiteServer.shared().port != port
    raise SystemExit(0)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.real
def test_a_forked_child_has_its_own_server_and_both_exit():
    command = [sys.executable, "-W", "ignore", "-c", FORKING]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_splits_share_no_names_and_seeds_belong_to_one_split():
    people = {
        seed_split(seed): {person.name for person in SiteWords(seed, Random(seed)).people(200)} for seed in (1, 8, 9)
    }
    firsts = {split: {name.split()[0] for name in names} for split, names in people.items()}
    assert not firsts["train"] & (firsts["validation"] | firsts["test"])
    assert sorted(number for split in people for number in part_of(range(100), split)) == list(range(100))
    assert clock_of(5) == clock_of(5) != clock_of(6)
    assert all(clock_of(seed).weekday() < 5 and 9 <= clock_of(seed).hour < 17 for seed in range(50))


def test_unknown_sites_and_wrong_effects_are_refused():
    with pytest.raises(UsageError, match="unknown site 'bank'"):
        find_site("bank")
    state = SiteState(find_site("shop"), 1)
    with pytest.raises(TaskError, match="site 'shop', seed 1: cannot apply"):
        state.apply([("UPDATE customer SET name = 'x'", []), ("DELETE FROM nothing", [])])
    assert state.digest() == digest_after(find_site("shop"), 1, [])
    state.close()
