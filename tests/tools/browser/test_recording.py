"""A session records its requests as a HAR document, and keeps nothing when it is closed."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentgym.tools.browser import BrowserSession
from tests.browsers import World, browser_site, open_page, ref

pytestmark = [pytest.mark.real, pytest.mark.web]
FORM = "<form method='post' action='/done'><input aria-label='Name' name='who'><button>Send</button></form>"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with browser_site() as world:
        world[1].pages["/done"] = (200, {"Content-Type": "application/json"}, '{"done": true}')
        world[1].pages["/style.css"] = (200, {"Content-Type": "text/css"}, "p {}")
        yield world


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def requests(session: BrowserSession) -> list[dict[str, Any]]:
    return session.network_log()["log"]["entries"]


def test_requests_and_responses_are_recorded_with_their_content(world: World):
    with open_page(world, FORM, record=re.compile("")) as session:
        session.fill(ref(session, "textbox"), "Ada")
        session.click(ref(session, "button"))
        first, sent = requests(session)
    assert (first["request"]["url"], first["response"]["status"]) == ("http://a.test/", 200)
    assert (sent["request"]["method"], sent["request"]["postData"]["text"]) == ("POST", "who=Ada")
    assert sent["response"]["content"]["text"] == '{"done": true}'


def test_only_matching_addresses_are_recorded(world: World):
    page = "<link rel='stylesheet' href='/style.css'><p>Hello</p>"
    with open_page(world, page, record=re.compile(r"^(?!.*\.css)")) as session:
        assert [entry["request"]["url"] for entry in requests(session)] == ["http://a.test/"]


def test_a_closed_session_leaves_no_record_behind(world: World, folders: Path):
    for ask in (True, False):
        with open_page(world, FORM, record=re.compile("")) as session:
            assert len(list(folders.glob("agentgym-har-*"))) == 1
            if ask:
                requests(session)
        assert list(folders.glob("agentgym-har-*")) == []
