"""Parsing snapshots, finding nodes, paging and comparing views, without a browser."""

from __future__ import annotations

import pytest

from agentgym.base.errors import ToolError, UsageError
from agentgym.tools.browser import BrowserOptions, PageError, SessionOptions, View, difference, page_of
from agentgym.tools.browser.acting import parse_snapshot
from agentgym.tools.browser.view import Numbering
from tests.rows import each_row

SNAPSHOT = r"""- generic [active] [ref=f3e1]:
  - heading "Shop" [level=1] [ref=f3e2]
  - link "Home" [ref=f3e4] [cursor=pointer]:
    - /url: /x?a=1
  - textbox "Name" [active] [ref=f3e8]: bob
  - textbox "Notes" [ref=f3e9]: "multi\nline: \"text\""
  - textbox "Find" [ref=f3e10]:
    - /placeholder: type here
  - checkbox "Agree" [checked] [ref=f3e11]
  - 'button "Buy ''now'': \"ok\"" [disabled] [ref=f3e14]'
  - generic [ref=f3e19] [cursor=pointer]: clicky
  - table [ref=f3e20]:
    - row [ref=f3e22]:
      - cell "Apple" [ref=f3e23]
      - cell "3" [ref=f3e24]
    - row [ref=f3e25]:
      - cell "Pear" [ref=f3e26]
      - cell [ref=f3e27]:
        - button "Delete" [ref=f3e28]
    - row [ref=f3e29]:
      - cell "Plum" [ref=f3e30]
      - cell [ref=f3e31]:
        - button "Delete" [ref=f3e32]
  - text: "a: b"
"""


def view_of(snapshot: str = SNAPSHOT, url: str = "http://a.test/", numbering: Numbering | None = None) -> View:
    numbering = numbering or Numbering()
    numbering.begin("d")
    return View(url=url, title="T", nodes=parse_snapshot(snapshot, numbering.number))


def test_a_view_is_shown_as_indented_text():
    assert view_of().lines == (
        'heading "Shop" (level 1)',
        '[e1] link "Home" -> /x?a=1',
        '[e2] textbox "Name" (focused): bob',
        '[e3] textbox "Notes": multi line: "text"',
        '[e4] textbox "Find" (placeholder "type here")',
        '[e5] checkbox "Agree" (checked)',
        '[e6] button "Buy \'now\': "ok"" (disabled)',
        "[e7] generic: clicky",
        "table",
        " row: Apple | 3",
        " row",
        '  cell "Pear"',
        "  cell",
        '   [e8] button "Delete"',
        " row",
        '  cell "Plum"',
        "  cell",
        '   [e9] button "Delete"',
        "a: b",
    )


@each_row(
    "line, role, name, value",
    [
        ('- button "a \\"b\\" \\\\c"', "button", 'a "b" \\c', ""),
        ("- 'link \"it''s: here\"':", "link", "it's: here", ""),
        ('- paragraph: "\\x1b tab\\tend"', "paragraph", "", "\x1b tab\tend"),
    ],
)
def test_quotes_and_escapes_of_snapshots_are_parsed(line: str, role: str, name: str, value: str):
    (node,) = parse_snapshot(line, str)
    assert (node.role, node.name, node.value) == (role, name, value)


def test_nodes_are_found_by_role_name_number_and_container():
    view = view_of()
    assert [view.find("button", "Delete", within=name).ref for name in ("Pear", "Plum")] == ["e8", "e9"]
    assert view.find("button", "Delete", nth=1).ref == "e9"
    assert view.find("checkbox", "agree").ref == "e5"
    assert view.find("link", "hom").ref == "e1"
    with pytest.raises(PageError, match="has 0 of them"):
        view.find("link", "Cart")
    assert view.node("e8").name == view.node(" [e8] ").name == "Delete"


@each_row("wrong", ["e80", "", "x" * 10_000, "8"])
def test_unknown_refs_name_candidates(wrong: str):
    with pytest.raises(PageError, match=r"no element .*for example: \[e") as caught:
        view_of().node(wrong)
    assert len(str(caught.value)) < 500


def test_elements_keep_their_refs():
    numbering = Numbering()
    before = view_of(numbering=numbering)
    after = view_of(SNAPSHOT.replace("- checkbox", '- button "New" [ref=f3e99]\n  - checkbox', 1), numbering=numbering)
    assert after.find("button", "New").ref == "e10"
    assert after.find("button", "Delete").ref == before.find("button", "Delete").ref


def test_difference_folds_unchanged_parts():
    text = difference(view_of(), view_of(SNAPSHOT.replace("[checked] ", "")))
    assert '- [e5] checkbox "Agree" (checked)\n+ [e5] checkbox "Agree"' in text
    assert "unchanged lines" in text
    assert "Home" not in text


def test_a_page_states_its_number():
    assert page_of("a\nb", 2, max_chars=1) == "b\n[page 2 of 2]"
    assert page_of("a") == "a"
    with pytest.raises(ToolError, match="1 to 2"):
        page_of("a\nb", 3, max_chars=1)


@each_row(
    "url, allowed",
    [
        ("http://shop.test/", True),
        ("https://shop.test/", False),
        ("http://shop.test:81/", False),
        ("http://shop.test.evil.com/", False),
        ("http://shop.test@evil.com/", False),
        ("http://a.b.wild.test:5/", True),
        ("http://wild.test/", False),
    ],
)
def test_only_allowed_origins_match(url: str, allowed: bool):
    options = SessionOptions(allowed=("http://shop.test", "http://*.wild.test:*"))
    assert bool(options.pattern.match(url)) is allowed


@each_row(
    "wrong",
    [
        {"allowed": ()},
        {"allowed": ("file:///",)},
        {"allowed": ("http://a.test",), "clock": "2030-01-01T00:00:00"},
        {"allowed": ("http://a.test",), "deadline": 0},
    ],
)
def test_wrong_session_options_are_refused(wrong: dict):
    with pytest.raises(UsageError):
        SessionOptions(**wrong)


def test_wrong_browser_options_are_refused():
    with pytest.raises(UsageError, match="not a host name"):
        BrowserOptions(resolve=(("*, MAP *", "1.2.3.4"),))
