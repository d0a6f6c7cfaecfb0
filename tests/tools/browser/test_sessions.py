"""Sessions of a real browser on a small site: views, actions, tabs, page time, recording."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from agentgym.tools.browser import BrowserSession, PageError, SessionOptions
from tests.browsers import PATIENCE_S, World, browser_site, open_page, ref
from tests.rows import each_row

pytestmark = [pytest.mark.real, pytest.mark.web]

FORM = """<title>Form</title><h1>Order</h1>
<label>Name <input id=who value=bob></label> <label>Notes <textarea></textarea></label>
<label><input type=checkbox> Agree</label>
<label>Size <select><option>Small<option value=L>Large<option disabled>Huge</select></label>
<label>Date <input type=date></label> <label>Fixed <input readonly></label>
<button onclick="document.title = 'sent'; out.textContent = 'Hello ' + who.value">Send</button>
<button disabled>Later</button> <a href="/next">Next</a> <p id=out></p>"""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with browser_site() as world:
        world[1].pages["/next"] = "<title>Next</title><p>the next page</p><a href='/'>Home</a>"
        yield world


def test_a_form_is_viewed_and_filled(world):
    with open_page(world, FORM) as session:
        session.fill(ref(session, "textbox", "Name"), "Ann")
        session.check(ref(session, "checkbox", "Agree"))
        session.select(ref(session, "combobox", "Size"), ["Large"])
        session.type(ref(session, "textbox", "Notes"), "quick")
        session.press("Backspace")
        session.click(ref(session, "button", "Send"))
        view = session.view()
        assert view.title == "sent"
        assert "Hello Ann" in view.text
        assert view.find("textbox", "Name").value == "Ann"
        assert view.find("textbox", "Notes").value == "quic"
        assert "checked" in view.find("checkbox", "Agree").states
        assert "selected" in view.find("option", "Large").states


@each_row(
    "role, name, action, arguments, message",
    [
        ("button", "Later", "click", (), "disabled"),
        ("button", "Send", "fill", ("x",), "not a text field"),
        ("textbox", "Fixed", "fill", ("x",), "read-only"),
        ("textbox", "Date", "fill", ("soon",), "the format is 2030"),
        ("combobox", "Size", "select", (["Tiny"],), "it has 'Small', 'Large', 'Huge'"),
        ("link", "Next", "check", (), "is not a checkbox"),
        ("heading", "Order", "upload", ({"a.txt": b"x"},), "did not ask for a file"),
    ],
)
def test_mistakes_are_reported(world, role, name, action, arguments, message):
    with open_page(world, FORM, all_refs=True) as session:
        with pytest.raises(PageError, match=message):
            getattr(session, action)(ref(session, role, name), *arguments)
        assert session.view().title == "Form"


def test_unknown_and_old_refs_are_reported(world):
    with open_page(world, FORM) as session:
        with pytest.raises(PageError, match="not been viewed yet"):
            session.click("e1")
        link = ref(session, "link", "Next")
        with pytest.raises(PageError, match="no element 'e99'"):
            session.click("e99")
        session.click(link)
        with pytest.raises(PageError, match="look again"):
            session.click(link)
        assert session.view().title == "Next"


def test_frames_are_filled_and_clicked(world):
    world[1].pages["/frame"] = "<button onclick='this.textContent=\"pressed\"'>Press</button><input aria-label=F>"
    with open_page(world, "<div style='height:200px'></div><iframe src='/frame'></iframe>") as session:
        session.fill(ref(session, "textbox", "F"), "text")
        session.click(ref(session, "button", "Press"))
        assert session.view().find("button", "pressed")
        assert session.view().find("textbox", "F").value == "text"


def test_history_and_reload(world):
    with open_page(world, FORM) as session:
        with pytest.raises(PageError, match="no page to go back to"):
            session.back()
        session.goto("/next")
        session.back()
        assert session.view().title == "Form"
        session.forward()
        session.reload()
        assert session.view().title == "Next"


def test_tabs_are_opened_switched_and_closed(world):
    with open_page(world, FORM, max_tabs=2) as session:
        form = ref(session, "button", "Send")
        session.new_tab("/next")
        assert session.view().tabs == ("http://a.test/", "http://a.test/next")
        with pytest.raises(PageError, match="close one first"):
            session.new_tab()
        session.switch_tab(0)
        with pytest.raises(PageError, match="not been viewed yet"):
            session.click(form)
        assert session.view().title == "Form"
        session.close_tab(1)
        for wrong in (lambda: session.switch_tab(1), session.close_tab):
            with pytest.raises(PageError):
                wrong()


@each_row(
    "opener",
    [
        "<button onclick='window.open(\"/next\")'>Open</button>",
        '<button onclick=\'window.open("/next", "_blank", "noopener")\'>Open</button>',
    ],
)
def test_windows_become_tabs(world, opener):
    with open_page(world, opener) as session:
        session.click(ref(session, "button", "Open"))
        view = session.view()
        assert (view.title, view.tab, len(view.tabs)) == ("Next", 1, 2)
        assert "new tab" in view.notices[0]
        session.close_tab()
        assert session.view().url == "http://a.test/"


def test_dialogs_are_reported_and_answered(world):
    html = """<button onclick='alert("note")'>A</button><p id=out></p>
      <button onclick='out.textContent = confirm("sure?")'>C</button>
      <button onclick='out.textContent = prompt("who?")'>P</button>"""
    with open_page(world, html) as session:
        session.click(ref(session, "button", "A"))
        assert "alert dialog 'note'" in session.view().notices[0]
        session.click(ref(session, "button", "C"))
        assert "dismissed" in session.view().notices[0]
        session.dialog(True)
        session.click(ref(session, "button", "C"))
        assert session.view().find("paragraph").value == "true"
        session.dialog(True, "Ann")
        session.click(ref(session, "button", "P"))
        assert session.view().find("paragraph").value == "Ann"


def test_files_are_uploaded(world):
    html = """<form method=post action=/next enctype=multipart/form-data><input type=file name=f aria-label=File>
      <button type=button onclick='document.querySelector("input").click()'>Choose</button>
      <button>Send</button></form>"""
    with open_page(world, html) as session:
        session.upload(ref(session, "button", "File"), {"a.txt": b"first"})
        session.upload(ref(session, "button", "Choose"), {"b.txt": b"second content"})
        session.click(ref(session, "button", "Send"))
        assert session.view().title == "Next"
        assert b'filename="b.txt"' in world[1].bodies[-1]
        assert b"second content" in world[1].bodies[-1]


def test_page_time_passes_without_waiting(world):
    html = """<p id=out>0</p><script>const t = Date.now();
      setTimeout(() => out.textContent = Math.round((Date.now() - t) / 1000), 30000)</script>"""
    with open_page(world, html) as session:
        assert session.view().find("paragraph").value == "0"
        session.wait(40)
        assert session.view().find("paragraph").value == "30"


def test_mouse_and_keyboard_work_by_position(world):
    html = """<body style='margin:0'><button style='position:absolute;left:100px;top:50px;width:80px;height:30px'
      onclick='i.focus()'>B</button><input id=i style='margin-top:200px'><div id=d></div><script>
      onmousedown = (e) => d.textContent += 'd' + e.clientX;
      onmouseup = (e) => d.textContent += 'u' + e.clientX</script>"""
    with open_page(world, html) as session:
        session.click_at(140, 65)
        session.type_text("hey")
        session.drag(300, 300, 420, 310)
        view = session.view()
        assert view.find("textbox").value == "hey"
        assert view.lines[-1] == "d140u140d300u420"
        with pytest.raises(PageError, match="outside"):
            session.click_at(-1, 5)


def test_fields_are_filled_with_keys(world):
    html = """<input id=i value=old><textarea id=t>old</textarea><p id=keys></p><p id=ends></p><script>
      onkeydown = (e) => keys.textContent += e.key; onkeyup = (e) => ends.textContent += i.value + ','</script>"""
    with open_page(world, html) as session:
        line, area = (node.ref for node in session.view().find_all("textbox"))
        session.fill(line, "ab")
        view = session.view()
        assert [node.value for node in view.find_all("textbox")] == ["ab", "old"]
        assert [node.value for node in view.find_all("paragraph")] == ["ab", "a,ab,"]
        session.fill(area, "two\nlines é")
        session.fill(line, "")
        assert [node.value for node in session.view().find_all("textbox")] == ["", "two lines é"]


TEXTS = """<p>Find at cat</p><p>Say at once: a <b>bold</b>
  word</p><textarea>first second</textarea><div contenteditable role=textbox>to edit</div>"""


@each_row(
    "text, where, selected",
    [
        ("at", None, ("Find ", "at", 5)),
        ("a bold word", None, ("Say at once: ", "a bold word", 13)),
        ("cat Say", None, None),
        ("cat\n\nSay", None, ("Find at ", "cat\n\nSay", 8)),
        ("second", 0, ("", "second", 6)),
        ("edit", 1, ("to ", "edit", 3)),
        ("missing", None, None),
        (" ", None, None),
    ],
)
def test_a_text_is_selected_as_whole_words(world, text: str, where: int | None, selected: tuple[str, str, int] | None):
    with open_page(world, TEXTS) as session:
        fields = session.view().find_all("textbox")
        element = None if where is None else fields[where].ref
        if selected is None and text != "cat Say":
            with pytest.raises(PageError, match="not there"):
                session.select_text(text, element)
            return
        session.select_text(text, element)
        view = session.view()
        shown = "cat Say" if selected is None else " ".join(selected[1].split())
        assert view.selected.split() == shown.split()
        assert f'Selected: "{shown}"' in view.header


@each_row(
    "html, line",
    [
        ("<p>Ann<br>London</p>", "Ann London"),
        ("<table><tr><td>bar<br><small>docs</small></table>", "row: bar docs"),
        ("<ul><li>one<br><b>two</b></ul>", "listitem: one two"),
        ("<a href=/><i>one</i><br><i>two</i></a>", '[e1] link "one two" -> /'),
        ("<p>one<span style='display:inline-block'>two</span></p>", "two"),
        ("<td><div>one</div><div>two</div></td>", "two"),
    ],
)
def test_texts_of_neighbours_stay_apart(world, html: str, line: str):
    with open_page(world, html) as session:
        view = session.view()
        assert line in [shown.strip() for shown in view.lines]
        assert not re.search("AnnLondon|bardocs|onetwo", view.text)


def test_what_is_copied_stays_in_its_session(world):
    html = "<textarea>mine  </textarea><input>"
    with open_page(world, html) as session, open_page(world, html.replace("mine", "yours")) as other:
        for page in (session, other):
            page.click(ref(page, "textbox"))
            page.press("Control+a")
            page.press("Control+c")
        session.click(session.view().find_all("textbox")[1].ref)
        session.press("Control+v")
        assert session.read("document.querySelector('input').value") == "mine  "


def test_a_partly_covered_element_is_clicked_where_it_shows(world):
    html = """<button style='position:absolute;left:0;top:0;width:90px;height:40px' onclick='document.title="hit"'>A
      </button><div style='position:absolute;left:20px;top:0;width:70px;height:40px;background:red'>cover</div>"""
    with open_page(world, html) as session:
        session.click(ref(session, "button"))
        assert session.view().title == "hit"


def test_a_drag_passes_through_points(world):
    html = """<body style='margin:0;height:400px'><p id=p></p><script>
      onmousemove = (e) => { if (e.buttons) p.textContent += e.clientX + ',' + e.clientY + ' ' }</script>"""
    with open_page(world, html) as session:
        session.drag(10, 10, 50, 10, through=[[30, 90], [70, 50]])
        moves = session.view().find("paragraph").value.split()
        assert [move for move in moves if move in ("30,90", "70,50", "50,10")] == ["30,90", "70,50", "50,10"]
        with pytest.raises(PageError, match="two numbers"):
            session.drag(10, 10, 50, 10, through=[[30]])


def test_scrolling_moves_a_disabled_area_and_nothing_else(world):
    html = """<textarea disabled style='height:50px'>1\n2\n3\n4\n5\n6\n7\n8\n9</textarea>
      <div style='height:60px;overflow:auto'><p style='height:900px'>top</p><a href=/next>end</a></div>"""
    with open_page(world, html) as session:
        session.scroll("down", ref=ref(session, "textbox"))
        assert session.read("document.querySelector('textarea').scrollTop") > 0
        session.scroll("down", ref=ref(session, "link"))
        assert session.read("document.querySelector('div').scrollTop") == 48


def test_screenshots_have_the_viewports_size_and_optional_marks(world):
    image = pytest.importorskip("PIL.Image", reason="needs the [web] extra")
    with open_page(world, FORM, viewport=(640, 480)) as session:
        plain, marked = session.screenshot(), session.screenshot(marks=True)
        assert image.open(BytesIO(plain)).size == (640, 480)
        assert plain != marked
        assert session.screenshot() == plain


def test_one_browser_is_used_from_any_thread_and_loop(world):
    pool, site = world
    site.pages["/"] = FORM

    async def title() -> str:
        session = await pool.open.awaited(SessionOptions(allowed=("http://a.test",), deadline=PATIENCE_S))
        await session.goto.awaited("http://a.test/")
        view = await session.view.awaited()
        await session.close.awaited()
        return view.title

    with ThreadPoolExecutor(3) as threads:
        titles = [threads.submit(asyncio.run, title()) for _ in range(3)]
    assert [future.result() for future in titles] == ["Form"] * 3


def test_sessions_share_nothing(world):
    world[1].pages["/cookie"] = (200, {"Set-Cookie": "a=1"}, "<script>localStorage.x = 1</script>")
    with open_page(world, FORM) as first:
        first.goto("/cookie")
        with open_page(world, FORM) as second:
            assert second.read("[document.cookie, localStorage.length]") == ["", 0]
        assert first.read("[document.cookie, localStorage.length]") == ["a=1", 1]


# Recording.

POSTED = "<form method='post' action='/done'><input aria-label='Name' name='who'><button>Send</button></form>"


def requests(session: BrowserSession) -> list[dict[str, Any]]:
    return session.network_log()["log"]["entries"]


def test_requests_and_responses_are_recorded_with_their_content(world: World):
    world[1].pages["/done"] = (200, {"Content-Type": "application/json"}, '{"done": true}')
    with open_page(world, POSTED, record=re.compile("")) as session:
        session.fill(ref(session, "textbox"), "Ada")
        session.click(ref(session, "button"))
        first, sent = requests(session)
    assert (first["request"]["url"], first["response"]["status"]) == ("http://a.test/", 200)
    assert (sent["request"]["method"], sent["request"]["postData"]["text"]) == ("POST", "who=Ada")
    assert sent["response"]["content"]["text"] == '{"done": true}'


def test_only_matching_addresses_are_recorded(world: World):
    world[1].pages["/style.css"] = (200, {"Content-Type": "text/css"}, "p {}")
    page = "<link rel='stylesheet' href='/style.css'><p>Hello</p>"
    with open_page(world, page, record=re.compile(r"^(?!.*\.css)")) as session:
        assert [entry["request"]["url"] for entry in requests(session)] == ["http://a.test/"]


def test_a_closed_session_leaves_no_record_behind(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for ask in (True, False):
        with open_page(world, POSTED, record=re.compile("")) as session:
            assert len(list(tmp_path.glob("agentgym-har-*"))) == 1
            if ask:
                requests(session)
        assert list(tmp_path.glob("agentgym-har-*")) == []


# Determinism.

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


def views_of(world: World, seed: int) -> list[str]:
    world[1].pages |= {"/data": "data", "/second": SECOND}
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
