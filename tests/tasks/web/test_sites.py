"""The bundled sites: deterministic, separate per episode, and robust against hostile requests."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from random import Random

import pytest

pytest.importorskip("starlette", reason="needs the [web] extra")
pytest.importorskip("jinja2", reason="needs the [web] extra")
pytest.importorskip("uvicorn", reason="needs the [web] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

import httpx

from agentgym.tasks.web.sites import SiteEpisode, SiteServer, SiteState, digest_after, find_site
from agentgym.tasks.web.sites.words import SiteWords, part_of, seed_split

SITES = ("shop", "forum", "tracker", "mail", "admin", "calendar")
every_site = pytest.mark.parametrize("site", SITES)

Episodes = Callable[[str], SiteEpisode]


@pytest.fixture
def episodes() -> Iterator[Episodes]:
    opened: list[SiteEpisode] = []

    def open_episode(site: str) -> SiteEpisode:
        opened.append(SiteServer.shared().open(site, 3))
        return opened[-1]

    yield open_episode
    for episode in opened:
        episode.close()


def visiting(episode: SiteEpisode) -> httpx.Client:
    """Return a client of the site of an episode."""
    base = f"http://127.0.0.1:{SiteServer.shared().port}"
    return httpx.Client(base_url=base, headers={"host": episode.site.host} | episode.headers, follow_redirects=True)


def crawl(episode: SiteEpisode) -> dict[str, str]:
    """Follow links, breadth first; return 30 pages by address."""
    pages: dict[str, str] = {}
    paths = ["/"]
    with visiting(episode) as client:
        for path in paths:
            if path not in pages and len(pages) < 30:
                response = client.get(path)
                assert response.status_code == 200, f"{path}: {response.status_code}"
                pages[path] = response.text
                paths += [html.unescape(link) for link in re.findall(r'<a [^>]*href="(/[^"]*)"', response.text)]
    return pages


@every_site
def test_same_seed_gives_the_same_pages_and_reading_changes_nothing(site: str, episodes: Episodes):
    episode = episodes(site)
    before = episode.digest()
    pages = crawl(episode)
    assert len(pages) == 30
    assert crawl(episodes(site)) == pages
    assert episode.digest() == before == digest_after(find_site(site), 3, [])
    assert len({SiteState(find_site(site), seed).digest() for seed in range(4)}) == 4


def test_episodes_do_not_share_state_and_need_their_token(episodes: Episodes):
    episode, other = episodes("shop"), episodes("shop")
    before = other.digest()
    episode.apply([("DELETE FROM wishlist", [])])
    assert episode.digest() != before == other.digest()
    with visiting(episode) as client:
        headers = {"host": "shop.test"}
        for token in ({}, {"x-agentgym-episode": "nonsense"}):
            assert httpx.get(client.base_url, headers=headers | token).status_code == 404
        assert client.get("/", headers={"host": "forum.test"}).status_code == 404
        episode.close()
        assert client.get("/").status_code == 404


INJECTIONS = ("'; DROP TABLE post; --", "<script>alert(1)</script>", "{{ 7*7 }}", "%00\x00")


def test_injections_are_shown_as_text_and_change_nothing_else(episodes: Episodes):
    episode = episodes("forum")
    with visiting(episode) as client:
        thread = episode.query("SELECT min(id) FROM thread WHERE NOT locked")[0][0]
        for text in INJECTIONS:
            client.get("/members", params={"sort": "posts; DROP TABLE post", "name": text})
            tables = {name: len(rows) for name, rows in episode.dump().items()}
            posted = client.post(f"/t/{thread}/reply", data={"body": f"x{text}"})
            assert posted.status_code == 200
            assert "<script>alert" not in posted.text
            after = {name: len(rows) for name, rows in episode.dump().items()}
            assert after == tables | {"post": tables["post"] + 1}


PAGES = {
    "shop": ("/", "/cart"),
    "forum": ("/search", "/members"),
    "tracker": ("/",),
    "mail": ("/folder/1", "/search", "/message/20", "/compose", "/contacts/3", "/filters"),
    "admin": ("/", "/customers", "/customers/5", "/invoices/9", "/staff/7", "/audit", "/invoices/export"),
    "calendar": ("/week", "/month", "/agenda", "/booking/9", "/rooms/2", "/people/4", "/free"),
}
FORMS = {
    "shop": ("/account/orders/1/return/1", "/nowhere"),
    "forum": ("/t/0", "/u/nobody"),
    "tracker": ("/issue/NONE-1", "/p/x/edit"),
    "mail": ("/compose", "/contacts/2", "/filters", "/draft/20/discard", "/organise/folder/2/delete"),
    "admin": ("/customers/4", "/customers/bulk", "/invoices/3", "/invoices/3/status", "/staff/new"),
    "calendar": ("/booking/new", "/booking/999/edit", "/booking/3/answer"),
}
QUERY_NAMES = ("page", "q", "sort", "date", "room", "minutes", "edit")
FORM_NAMES = ("message", "action", "to", "kind", "name", "email", "row", "status", "amount", "day", "answer")
HOSTILE = ("<script>alert(1)</script>", "' OR 1=1 --", "%00", "a" * 600, "-1", "99999999999999999999", "../../etc")


@every_site
def test_hostile_queries_and_forms_change_nothing(site: str, episodes: Episodes):
    episode = episodes(site)
    before = episode.digest()
    with visiting(episode) as client:
        assert client.request("DELETE", "/").status_code == 405
        for number, path in enumerate(PAGES[site]):
            assert client.get(path).status_code == 200, path
            for place, name in enumerate(QUERY_NAMES):
                text = HOSTILE[(number + place) % len(HOSTILE)]
                response = client.get(path, params={name: text})
                assert response.status_code in (200, 400, 404), (path, name, text)
                assert "<script>alert" not in response.text
        for path in FORMS[site]:
            for text in HOSTILE:
                response = client.post(path, data=dict.fromkeys(FORM_NAMES, text))
                assert response.status_code < 500, (path, text)
        for path in ("/static/../site.py", "/product/99999999999999999999", "/%ff%fe"):
            assert client.get(path).status_code == 404, path
    assert episode.digest() == before


def test_huge_and_foreign_bodies_are_refused_and_the_site_stays_up(episodes: Episodes):
    with visiting(episodes("shop")) as client:
        assert client.post("/account/settings", data={"email": "x" * 2_000_000}).status_code == 413
        assert client.post("/account/settings", files={"email": b"x"}).status_code == 415
        assert client.get("/").status_code == 200


def test_splits_share_no_names_and_seeds_belong_to_one_split():
    people = {
        seed_split(seed): {person.name for person in SiteWords(seed, Random(seed)).people(200)} for seed in (1, 8, 9)
    }
    firsts = {split: {name.split()[0] for name in names} for split, names in people.items()}
    assert not firsts["train"] & (firsts["validation"] | firsts["test"])
    assert sorted(number for split in people for number in part_of(range(100), split)) == list(range(100))
