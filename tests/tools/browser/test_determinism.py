"""The same seed and the same actions give the same views, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.browsers import World, browser_site, open_page, ref

pytestmark = [pytest.mark.real, pytest.mark.web]

LIVELY = """<title>Lively</title><p id=date></p><p id=numbers></p><p id=late></p><p id=steps></p><p id=net></p>
<button onclick="load()">Load</button> <a href='/second'>Second</a><script>
const seconds = () => Math.round(Date.now() / 1000);
const show = (text) => setTimeout(() => net.textContent += text + seconds(), 150);
const load = () => fetch('/data').then((r) => r.text()).then(show);
date.textContent = new Date().toString();
numbers.textContent = [Math.random(), crypto.getRandomValues(new Uint32Array(2))];
let n = 0; const step = () => { if (++n < 100) requestAnimationFrame(step); else steps.textContent = 'done' }; step();
setInterval(() => late.textContent = seconds() + ' ' + Math.round(performance.now() / 1000), 70);
</script>"""

SECOND = "<p id=p></p><script>p.textContent = Date.now() + ' ' + Math.random()</script><a href='/'>Back</a>"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with browser_site() as (pool, site):
        site.pages["/data"] = "data"
        site.pages["/second"] = SECOND
        yield pool, site


def views_of(world: World, seed: int) -> list[str]:
    with open_page(world, LIVELY, seed=seed) as session:
        views = [session.view().text]
        for act in (
            lambda: session.click(ref(session, "button", "Load")),
            lambda: session.wait(3),
            lambda: session.click(ref(session, "link", "Second")),
            session.back,
        ):
            act()
            views.append(session.view().text)
    return views


def test_the_same_seed_gives_the_same_views(world):
    first = views_of(world, 1)
    for _ in range(3):
        assert views_of(world, 1) == first


def test_page_time_stands_still_between_actions(world):
    with open_page(world, LIVELY) as session:
        session.view()
        assert session.view() == session.view()


def test_page_time_continues_in_other_tabs_and_sites(world):
    with open_page(world, LIVELY, allowed=("http://*.test",)) as session:
        times = [session.read("Date.now()")]
        for act in (lambda: session.goto("http://b.test/"), lambda: session.new_tab("http://c.test/"), session.reload):
            act()
            times.append(session.read("Date.now()"))
        assert [later - earlier for earlier, later in pairwise(times)] == [1000] * 3
