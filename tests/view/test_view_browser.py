"""The viewer in a real browser, served and as one file: contents, clicks, keys and blocked scripts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentgym.core.messages import ToolCall, assistant, user, with_pictures
from agentgym.core.trajectory import write_jsonl
from agentgym.view.collection import Collection
from agentgym.view.report import write_report
from tests.browsers import PATIENCE_S, need_browser
from tests.view_cases import DIFF, errand, hostile, png, sample_run, turn, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

need_browser()
pytest.importorskip("starlette", reason="needs the [serve] extra")
pytest.importorskip("httpx", reason="needs the [serve] extra")

from agentgym.view.server import make_app  # noqa: E402
from tests.serving_cases import running  # noqa: E402

pytestmark = [pytest.mark.real, pytest.mark.web]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    from agentgym.tools.browser.pool import choose_executables

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=choose_executables()[0], chromium_sandbox=False)
        yield launched
        launched.close()


@dataclass
class Look:
    """A page, its URL, and its errors."""

    page: Page
    url: str
    problems: list[str]

    def at(self, address: str = "/") -> Page:
        """Go to a page of the viewer and wait for it."""
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}#{address}")
        self.page.wait_for_selector("main h1, main [role=alert]")
        return self.page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def rows(self, count: int) -> None:
        """Wait until the table has `count` rows."""
        self.some("table.rows tbody tr", count)

    def some(self, selector: str, count: int) -> None:
        """Wait until `count` elements match."""
        from playwright.sync_api import expect

        expect(self.page.locator(selector)).to_have_count(count, timeout=PATIENCE_S * 1000)

    def heading(self, text: str) -> None:
        """Wait for the page with this heading."""
        self.page.locator("main:not([aria-busy]) h1", has_text=text).wait_for()

    def ids(self) -> list[str]:
        return self.page.locator("table.rows tbody a").all_text_contents()


def look_at(browser: Browser, url: str, **options: Any) -> Look:
    page = browser.new_context(**options).new_page()
    page.set_default_timeout(PATIENCE_S * 1000)
    look = Look(page, url, [])
    page.on("pageerror", lambda error: look.problems.append(str(error)))
    page.on("console", lambda message: look.problems.append(message.text) if message.type == "error" else None)
    page.on("dialog", lambda dialog: look.problems.append(dialog.message))
    return look


@pytest.fixture(params=["served", "file"])
def form(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def open_form(browser: Browser, form: str, tmp_path: Path) -> Iterator[Any]:
    """Opens trajectory files as a served page or a report; errors in the page fail the test."""
    looks: list[Look] = []
    servers: list[Any] = []

    def open_page(*files: Path, **options: Any) -> Look:
        if form == "file":
            write_report(Collection(files), tmp_path / "report.html")
            url = (tmp_path / "report.html").as_uri()
        else:
            servers.append(running(make_app(Collection(files))))
            url = servers[-1].__enter__().url + "/"
        looks.append(look_at(browser, url, **options))
        return looks[-1]

    yield open_page
    problems = [problem for look in looks for problem in look.problems]
    for look in looks:
        look.page.context.close()
    for server in servers:
        server.__exit__(None, None, None)
    assert problems == []


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "eval.jsonl"
    write_jsonl(path, sample_run())
    return path


EVERY = [f"{task}#{attempt}" for task in range(4) for attempt in range(3)]
QUERIES = {
    "": ([*EVERY, "0#7"], "16.7 %"),
    "sort=-reward&difficulty=1": (["0#0", "0#7", "0#1", "0#2", "3#0", "3#1", "3#2"], "16.7 %"),
    "solved=no&tag=t1": ([*EVERY[3:6], *EVERY[9:]], "0.0 %"),
    "q=select 2 FROM&sort=-tool_errors": (["0#2", "1#2", "2#2", "3#2"], "0.0 %"),
}
"""Maps filters to the matching trajectories and the success rate of the policy `tiny`."""


def test_rows_are_filtered_sorted_searched_and_summed_up(open_form: Any, file: Path):
    write_jsonl(file, [errand(0, 7, policy="other", turns=[turn(0, "a", "b", {"outcome": 0.5}, 0.5)])], append=True)
    look = open_form(file)
    for query, (ids, rate) in QUERIES.items():
        look.at(f"/?{query}")
        assert look.ids() == [f"errand/test/{name}" for name in ids], query
        assert rate in look.page.locator(".figures, .parts").inner_text(), query


def test_a_trajectory_shows_what_each_turn_earned_and_the_gates_that_decided(open_form: Any, file: Path):
    page = open_form(file).at("/t/0.1")
    assert page.locator(".turn .gate.shut").count() == 2
    assert "outcome ≥ 1 (is 0)" in page.locator("#turn-1 .gates").inner_text()
    first = page.locator("table.credit tbody tr").first.inner_text().split()
    assert first[:4] == ["1", "chatted", "1", "shut"]
    assert page.locator("table.data th", has_text="total").count() == 1
    assert page.locator("table.data td", has_text="Ada|Ben").count() == 1
    assert page.locator("ol.hits li").all_inner_texts() == ["1Port Veld a town by the sea", "2Veld a river"]
    assert page.locator(".keyword", has_text="SELECT").count() == 1


FONT_SIZES = """() => [...document.querySelectorAll('main *')].filter((one) => one.checkVisibility()
  && [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
  .map((one) => parseFloat(getComputedStyle(one).fontSize) * (one.getScreenCTM?.().a ?? 1))"""
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 360, "height": 800}


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_pages_fit_their_screen_and_their_text_can_be_read(open_form: Any, tmp_path: Path, size: Any):
    channels = {f"a_channel_with_a_long_name_{number}": float(number) for number in range(32)}
    long = errand(1, 0, turns=[turn(0, "a", "b" * 300, {"outcome": 0.0, **channels}, 0.0)], policy="org/a-long-name")
    write_run(tmp_path)
    write_jsonl(tmp_path / "eval-before.jsonl", sample_run())
    write_jsonl(tmp_path / "eval-after.jsonl", [*sample_run(), long])
    look = open_form(tmp_path, viewport=size)
    for address in ("/", "/?policy=org/a-long-name", "/compare?a=0&b=1", "/t/0.0", "/g/0.0"):
        page = look.at(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], address
        assert min(page.evaluate(FONT_SIZES)) >= 11, address
    assert look.at("/?policy=org/a-long-name").locator(".chart > div > div > .ranked > li:visible .bar").count() <= 22
    page = look.at("/t/0.0")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    for part in (".question", ".gold, .task-line:last-child"):
        box = page.locator(f".task-bar {part}").first.bounding_box()
        assert 0 <= box["y"] < 300, part


def test_each_policy_and_file_has_its_own_rate(open_form: Any, tmp_path: Path):
    write_run(tmp_path)
    (tmp_path / "config.yaml").write_text("model: tiny\ncredit: gated\nsteps: 4\n", encoding="utf-8")
    write_jsonl(tmp_path / "eval-before.jsonl", [errand(task) for task in range(4)])
    write_jsonl(tmp_path / "eval-after.jsonl", [errand(task, solved=task < 3) for task in range(4)])
    page = open_form(tmp_path).at()
    run = page.locator(".run").inner_text()
    for part in ("0.0 %", "75.0 %", "+75 points", "model tiny", "credit gated"):
        assert part in run
    assert page.locator(".figures").count() == 0
    rates = [text.split()[0] for text in page.locator(".parts tbody td:nth-child(2)").all_inner_texts()]
    assert rates == ["75.0", "0.0", "37.5"]


def test_contents_are_shown_by_their_kind(open_form: Any, tmp_path: Path):
    file = tmp_path / "eval.jsonl"
    edit = assistant("", [ToolCall("edit", {"path": "f.py", "old": "x = 1", "new": "x = 2"})])
    pictured = with_pictures(user("A page."), [png()])
    first = turn(0, "a", DIFF, {"outcome": 0.0}, 0.0)
    second = turn(1, "b", "1\timport os\n2\tprint(1)", {"outcome": 0.0}, 0.0)
    second.action, second.observation = edit, [*second.observation, pictured]
    third = turn(2, "", "PASSED a\nFAILED b", {"outcome": 0.0}, 0.0)
    third.action = '<think>Hm.</think>\n<tool_call>\n{"name": "query", "arguments": {"sql": "SELECT 7"}}\n</tool_call>'
    third.span = None
    write_jsonl(file, [errand(turns=[first, second, third])])
    page = open_form(file).at("/t/0.0")
    assert page.locator("#turn-1 .diff .added").inner_text() == "+x = 2\n"
    assert page.locator("#turn-2 .diff .removed").inner_text() == "- x = 1\n"
    assert page.locator(".line-number").all_inner_texts() == ["1", "2"]
    assert page.locator("#turn-2 img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 4
    assert page.locator("#turn-3 .thinking summary").inner_text() == "reasoning"
    assert "→ query" in page.locator("#turn-3 .call").inner_text()
    assert page.locator("#turn-3 .bad", has_text="FAILED b").count() == 1


def test_keys_move_open_and_search(open_form: Any, file: Path):
    look = open_form(file)
    page = look.at("/?solved=yes")
    look.press("j", "j")
    assert page.locator("tr.current a").inner_text() == "errand/test/2#0"
    look.press("Enter")
    look.heading("errand/test/2#0")
    look.press("[")
    look.heading("errand/test/0#0")  # the neighbour among those that were solved
    look.press("g")
    look.some(".attempt", 3)
    look.press("g")
    look.heading("errand/test/0#0")
    look.press("u")
    look.rows(2)
    assert look.ids() == ["errand/test/0#0", "errand/test/2#0"]
    look.press("/")
    page.keyboard.type("number 2")
    look.press("Enter")
    look.rows(1)
    assert look.ids() == ["errand/test/2#0"]


def test_nothing_that_a_model_wrote_runs_or_reorders_text(open_form: Any, tmp_path: Path):
    file = tmp_path / "eval.jsonl"
    write_jsonl(file, [hostile(), errand(task_id="<b>", id="<b>#1")])
    write_jsonl(tmp_path / "<b>two.jsonl", [hostile()])
    look = open_form(file, tmp_path / "<b>two.jsonl")
    places = ("/", "/compare?a=0&b=2", "/compare?a=<script>&b=1e9", "/t/0.0", "/g/0.0", "/?q=<script>")
    for address in (*places, "/t/<script>alert(1)</script>", "/?sort=<img src=x onerror=alert(1)>"):
        page = look.at(address)
        for _ in range(3):  # those inside of others are made when these are opened
            page.evaluate("document.querySelectorAll('main details').forEach((one) => { one.open = true })")
            look.some("main details[open]:not(:has(> summary + *))", 0)
        if address == "/t/0.0":
            text = page.locator("main").inner_text()
            for part in ("<script>window.hacked = 1</script>", "␛[31mred", "⟨U+202E⟩gnitsil", "nul ␀ back ␈␈"):
                assert part in text
            assert not set("\u202e\u200e\u061c\x00\x9b\x1b") & set(text)
            page.locator("button", has_text="Show all 5,000,000 characters").click()
        assert page.evaluate("window.hacked") is None
        handlers = "[...e.attributes].some((attribute) => attribute.name.startsWith('on'))"
        assert page.locator("main *").evaluate_all(f"all => all.filter((e) => {handlers}).length") == 0
        assert page.locator("main script, main iframe, main a[href^='javascript']").count() == 0
        assert page.locator("main img").count() == (address in ("/t/0.0", "/g/0.0"))
    # The content security policy also blocks markup from text.
    refused = "() => { try { document.body.innerHTML = '<b>'; return false } catch { return true } }"
    assert look.page.evaluate(refused)
    expected = ("TrustedHTML", "status of 400")  # the refusals above, and those of addresses that lead nowhere
    look.problems[:] = [problem for problem in look.problems if not any(part in problem for part in expected)]


def test_a_growing_file_shows_up_without_a_reload(browser: Browser, file: Path):
    with running(make_app(Collection([file]))) as server:
        look = look_at(browser, server.url + "/")
        page = look.at()
        assert len(look.ids()) == 12
        write_jsonl(file, [errand(50)], append=True)
        look.rows(13)
        assert "13 trajectories, live" in page.locator(".status").inner_text()
        write_jsonl(file, [errand(1, 1, solved=True)], append=True)  # takes the place of its first try
        page.locator("tr[data-key='0.13']").wait_for()
        assert look.ids() == [f"errand/test/{name}" for name in (*EVERY[:4], *EVERY[5:], "50#0", "1#1")]
        page.context.close()
        assert look.problems == []
