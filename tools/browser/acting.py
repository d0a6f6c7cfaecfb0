"""Runs a session's actions: one at a time, with a deadline, each followed by a fixed amount of page time."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agentgym.base.errors import InfrastructureError, ToolError
from agentgym.tools.browser.clock import PageClock
from agentgym.tools.browser.options import BrowserGone, PageError, SessionOptions
from agentgym.tools.browser.recording import Recording
from agentgym.tools.browser.tab import STUCK, Tab, Unanswered, script
from agentgym.tools.browser.view import Numbering, View, ViewNode, frame_of
from agentgym.tools.browser.windows import Windows

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, CDPSession, Locator, Page


SLOW_MS = 30_000.0
"""Longer than any deadline: the session's deadline decides whether a page is too slow."""
CHANGED = "the page has changed since the last view; look again"


@dataclass(frozen=True)
class Target:
    """The current state of an element."""

    node: ViewNode
    locator: Locator
    facts: dict[str, Any]
    x: float
    y: float

    @property
    def label(self) -> str:
        """The element's name in messages."""
        return self.node.line()[:120]


async def locate(tab: Tab, view: View, ref: str, visible: bool = True, enabled: bool = True) -> Target:
    """Find a ref's element, and scroll it into view if it must be `visible`.

    Raises:
        PageError: It cannot be acted on; the message says why.
    """
    node = view.node(ref)
    locator = tab.locator(node.handle)
    # Checked first, as everything else waits for the element to appear.
    if not await locator.count():
        raise PageError(f"{node.line()[:120]} is no longer there: {CHANGED}")
    facts = await locator.evaluate(script("locate.js"), not visible, timeout=SLOW_MS)
    problem = facts["problem"]
    if problem == "gone":
        raise PageError(f"{node.line()[:120]} is no longer there: {CHANGED}")
    if problem == "disabled" and enabled:
        raise PageError(f"{node.line()[:120]} is disabled")
    if problem and visible:
        what = f"covered by {facts['cover']}; act on that first" if problem == "covered" else "not visible"
        raise PageError(f"{node.line()[:120]} is {what}")
    x, y = facts["x"], facts["y"]
    if visible and frame_of(node.handle) != frame_of(next((n.handle for n in view.nodes if n.handle), "")):
        box = await locator.bounding_box(timeout=SLOW_MS)
        if box is None:
            raise PageError(f"{node.line()[:120]} is not visible")
        x, y = box["x"] + x - facts["left"], box["y"] + y - facts["top"]
    return Target(node, locator, facts, x, y)


def choose(target: Target, names: list[str]) -> list[int]:
    """Return the positions of the options with these labels or values."""
    options = target.facts["options"]
    if target.facts["tag"] != "select":
        raise PageError(f"{target.label} is not a list of options; click it instead")
    places = []
    for name in names:
        place = next((i for i, (label, value, _) in enumerate(options) if name in (label, value)), None)
        if place is None:
            labels = ", ".join(repr(label) for label, _, _ in options[:30])
            raise PageError(f"{target.label} has no option {name[:80]!r}; it has {labels}")
        if options[place][2]:
            raise PageError(f"option {name[:80]!r} of {target.label} is disabled")
        places.append(place)
    return places


INTERACTIVE = frozenset(
    {"button", "checkbox", "combobox", "link", "listbox", "menuitem", "menuitemcheckbox", "menuitemradio", "option"}
    | {"radio", "scrollbar", "searchbox", "slider", "spinbutton", "switch", "tab", "textbox", "treeitem"}
)
STATES = {"checked", "disabled", "expanded", "level", "pressed", "selected", "invalid"}
LINE = re.compile(r"( *)- (.*)")
ROLE = re.compile(r"([\w-]+)(?: (\"(?:[^\"\\]|\\.)*\"))?((?: \[[^\]]*\])*)(?:: ?(.*)|:)?$")
SINGLE_QUOTED = re.compile(r"'((?:[^']|'')*)'(:.*)?$")
ATTRIBUTE = re.compile(r"\[([\w-]+)(?:=([^\]]*))?\]")
PROPERTY = re.compile(r"/([\w-]+): ?(.*)")
ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)")
CONTROL = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def parse_snapshot(snapshot: str, number: Callable[[str], str], everything: bool = False) -> tuple[ViewNode, ...]:
    """Return the nodes of a snapshot in document order.

    `number` maps Playwright's refs to the shown ones. Only actionable nodes are numbered, unless `everything` is set.
    """
    nodes: list[ViewNode] = []
    above: list[tuple[int, int]] = []
    for line in snapshot.split("\n"):
        match = LINE.match(line)
        if match is None:
            continue
        indent, item = len(match[1]), match[2]
        while above and above[-1][0] >= indent:
            above.pop()
        parent = above[-1][1] if above else None
        if (described := PROPERTY.match(item)) is not None:
            if parent is not None and described[1] == "url":
                nodes[parent] = _changed(nodes[parent], url=_scalar(described[2]))
            elif parent is not None and described[1] == "placeholder":
                nodes[parent] = _changed(nodes[parent], placeholder=_scalar(described[2]))
            continue
        nodes.append(_node(item, len(above), parent, number, everything))
        above.append((indent, len(nodes) - 1))
    return tuple(nodes)


def first_ref(snapshot: str) -> str:
    """Return the first ref in a snapshot; its frame prefix changes with every new document."""
    match = re.search(r"\[ref=(\w+)\]", snapshot)
    return match[1] if match else ""


def _node(item: str, depth: int, parent: int | None, number: Callable[[str], str], everything: bool) -> ViewNode:
    if (quoted := SINGLE_QUOTED.match(item)) is not None:
        item = quoted[1].replace("''", "'") + (quoted[2] or "")
    match = ROLE.match(item)
    if match is None:
        return ViewNode("text", value=_scalar(item), depth=depth, parent=parent)
    role, name, attributes, value = match.groups()
    marks = {key: value or "true" for key, value in ATTRIBUTE.findall(attributes or "")}
    states = {key: value for key, value in marks.items() if key in STATES}
    if "active" in marks and role not in ("generic", "document", "iframe"):
        states["focused"] = "true"
    handle = marks.get("ref", "")
    addressable = handle and (everything or role in INTERACTIVE or "cursor" in marks)
    ref = number(handle) if addressable else ""
    box = marks.get("box")
    return ViewNode(
        role=role,
        name=_unescaped(name[1:-1]) if name else "",
        value=_scalar(value or ""),
        ref=ref,
        states=states,
        depth=depth,
        parent=parent,
        handle=handle,
        box=tuple(int(float(part)) for part in box.split(",")) if box else None,  # pyright: ignore[reportArgumentType]
    )


def _changed(node: ViewNode, url: str | None = None, placeholder: str | None = None) -> ViewNode:
    states = dict(node.states)
    if placeholder is not None and placeholder != node.name:
        states["placeholder"] = json.dumps(placeholder, ensure_ascii=False)
    return ViewNode(
        node.role, node.name, node.value, node.ref, states, node.url if url is None else url, node.depth, node.parent,
        node.handle, node.box,
    )  # fmt: skip


def _scalar(text: str) -> str:
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return _unescaped(text[1:-1])
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else CONTROL.get(code, code)

    return ESCAPE.sub(plain, text) if "\\" in text else text


MAX_TEXT = 20_000
SELECTED = f"""(({{activeElement: field}}) => (field && field.type === "password" ? "" :
  field && field.selectionStart != null ? field.value.slice(field.selectionStart, field.selectionEnd) :
  String(getSelection())).slice(0, {MAX_TEXT}))(document)"""
"""The selected text of the page or of the focused field."""
APART = """document.querySelectorAll("br:not([role], [contenteditable] *)").forEach(
  (line) => line.setAttribute("role", "presentation"))"""
"""Keeps the texts around line breaks apart: a snapshot joins them around an element without a role."""
FACTS = (
    f"({APART}, "
    "{title: document.title.slice(0, 300), elements: document.getElementsByTagName('*').length,"
    " top: Math.round(scrollY), height: document.scrollingElement ? document.scrollingElement.scrollHeight : 0,"
    f" window: innerHeight, selected: {SELECTED}}})"
)
TOO_LARGE = "the page is very large: only the visible part is shown; scroll to see more"


async def look(tab: Tab, numbering: Numbering, options: SessionOptions, boxes: bool = False) -> View:
    """Return the tab's view (without tabs and notices)."""
    from playwright.async_api import TimeoutError as TooSlow

    if tab.unreachable:
        return View(url=tab.unreachable, title="", nodes=(), note="this URL could not be opened")
    facts = await tab.ask(FACTS, options.look_s)
    nodes, note = None, ""
    if facts["elements"] <= options.max_elements:
        try:
            async with asyncio.timeout(options.look_s + 1):
                snapshot = await tab.page.aria_snapshot(mode="ai", timeout=options.look_s * 1000, boxes=boxes)
            numbering.begin(f"{tab.documents}:{frame_of(first_ref(snapshot))}")
            nodes = parse_snapshot(snapshot, numbering.number, options.all_refs)
        except (TooSlow, TimeoutError):
            if options.trusted:
                raise TimeoutError from None
            await tab.interrupt()
    if nodes is None:
        nodes, note = await _in_sight(tab, numbering, options.look_s), TOO_LARGE
    selected, scroll = facts["selected"], _scroll(facts)
    return View(url=tab.page.url, title=facts["title"], nodes=nodes, selected=selected, scroll=scroll, note=note)


async def _in_sight(tab: Tab, numbering: Numbering, seconds: float) -> tuple[ViewNode, ...]:
    """Return the viewport's nodes as a flat list; handles are XPaths."""
    numbering.begin(f"{tab.documents}:sight")
    items = await tab.call("sight.js", seconds=seconds)
    return tuple(
        ViewNode(
            role=item["role"],
            name=item["name"],
            value=item["value"],
            url=item["url"],
            ref=numbering.number(item["handle"]) if item["role"] in INTERACTIVE else "",
            handle=item["handle"],
        )
        for item in items
    )


def _scroll(facts: dict[str, Any]) -> str:
    below = facts["height"] - facts["window"] - facts["top"]
    if facts["top"] <= 0 and below <= 0:
        return ""
    return f"Scroll: {facts['top']} px above, {max(below, 0)} px below the visible part"


CLOSE_S = 5.0
GONE = re.compile(
    r"has been closed|Target closed|crashed|disconnected|Connection closed|not open for writing|os error", re.IGNORECASE
)


class Acting:
    """The state of a session, and how it performs an action."""

    def __init__(
        self,
        context: BrowserContext,
        options: SessionOptions,
        alive: Callable[[], bool],
        on_close: Callable[[], Awaitable[None]],
    ) -> None:
        self.options = options
        self._context, self._alive, self._on_close = context, alive, on_close
        self._clock = PageClock(options.start)
        self._windows = Windows(context, options, self._clock)
        self._recording = Recording(context, options.record)
        self._numberings: dict[Tab, Numbering] = {}
        self._view: View | None = None
        self._viewed: Tab | None = None
        self._viewed_document = 0
        self._lock = asyncio.Lock()
        self._closed = False
        self._failure = ""
        self._copied = ""

    @property
    def closed(self) -> bool:
        """Whether the session has been closed."""
        return self._closed

    @property
    def last_view(self) -> View | None:
        """The view that refs belong to."""
        return self._view

    @property
    def _patience(self) -> float:
        """Real seconds for operations that take the browser several steps."""
        return 3 * self.options.look_s

    async def _start(self, page: Page, cdp: CDPSession) -> None:
        await self._recording.start()
        await self._windows.start(page, cdp)

    def _lost(self, why: str) -> None:
        """Mark the browser as gone: every later call raises `BrowserGone`."""
        self._failure = self._failure or why

    def _check(self) -> None:
        if self._closed:
            raise BrowserGone("this browser session is closed")
        if self._failure:
            raise BrowserGone(self._failure)
        if self._windows.tab.crashed:
            self._lost("the page's process crashed")
            raise BrowserGone(self._failure)

    async def _guarded(self, work: Awaitable[Any], seconds: float) -> Any:
        """Await work on the browser with a deadline, and translate its errors into ours."""
        from playwright.async_api import Error

        task = asyncio.ensure_future(work)
        try:
            async with asyncio.timeout(seconds):
                return await task
        except TimeoutError as problem:
            self._check()
            self._fail_if_trusted("the browser took too long")
            await self._interrupted()
            raise PageError("the page took too long and its script was stopped; try something else") from problem
        except (ToolError, InfrastructureError):
            raise
        except Error as problem:
            if "Target page" in problem.message and await self._only_a_tab():
                return None
            raise self._translated(problem.message) from problem
        except Exception as problem:
            # Playwright raises bare exceptions when its driver dies during a call.
            raise self._translated(str(problem)) from problem

    async def _only_a_tab(self) -> bool:
        """Whether only one window was closed, by its own page, and not the session or the browser."""
        with suppress(Exception):  # no answer, whatever the reason, means that the session is lost
            async with asyncio.timeout(CLOSE_S):
                await self._context.cookies("http://the.browser.answers/")
                return not self._failure and not self._closed and self._alive()
        return False

    async def _interrupted(self) -> None:
        from playwright.async_api import Error

        try:
            await self._windows.tab.interrupt()
        except Error as problem:
            raise self._translated(problem.message) from problem
        except Unanswered:
            await self._windows.replace()
            raise PageError("the page stopped responding and was closed; an empty tab replaced it") from None

    def _translated(self, message: str) -> PageError | BrowserGone:
        """Return the error to raise for one of Playwright's."""
        if self._failure or self._windows.tab.crashed or GONE.search(message.split("\n")[0]):
            self._lost(f"the browser is gone ({_first_line(message)})")
            return BrowserGone(self._failure)
        return PageError(_first_line(message))

    async def _act(self, work: Callable[[Tab], Awaitable[Any]], seconds: float | None = None) -> Any:
        """Perform an action in the current tab, then advance page time by `seconds`, or one tick."""
        async with self._lock:
            self._check()
            self._windows.begin()
            tab = self._windows.tab
            try:
                result = await self._guarded(work(tab), self.options.deadline)
            finally:
                if not self._failure and not self._closed:
                    await self._settle(self.options.tick if seconds is None else seconds)
            return result

    async def _settle(self, seconds: float) -> None:
        """Let the page settle: advance its time, and that of every window it opened."""
        await self._live(self._windows.tab, seconds)
        self._clock.now += seconds
        if await self._guarded(self._windows.arrive(), self._patience):
            await self._live(self._windows.tab, self.options.tick)
            self._clock.now += self.options.tick
        self._check()

    async def _live(self, tab: Tab, seconds: float) -> None:
        problem = await self._guarded(tab.live(seconds), 2 * self.options.deadline + self._patience)
        if not problem:
            return
        self._fail_if_trusted(problem)
        if problem == STUCK:
            await self._interrupted()
        self._windows.notice(problem)

    def _fail_if_trusted(self, problem: str) -> None:
        """Raise `InfrastructureError` for trusted pages, whose slowness is our failure."""
        if self.options.trusted:
            self._lost(f"{problem}, although its pages are known to be fast")
            raise InfrastructureError(self._failure)

    def _node(self, tab: Tab, ref: str) -> ViewNode:
        """Return the node of a ref. Raises `PageError` if the ref is unknown or from another page."""
        view = self._view
        if view is None or self._viewed is not tab:
            raise PageError("this page has not been viewed yet; look first to get refs")
        node = view.node(ref)
        if self._viewed_document != tab.documents:
            raise PageError(f"the tab shows a different page now: {CHANGED}")
        return node

    async def _on(self, tab: Tab, ref: str, visible: bool = True, enabled: bool = True) -> Target:
        self._node(tab, ref)
        assert self._view is not None
        return await locate(tab, self._view, ref, visible, enabled)

    async def _look(self, boxes: bool = False) -> View:
        """Take a view and store it."""
        tab = self._windows.tab
        numbering = self._numberings.setdefault(tab, Numbering())
        view = await self._guarded(look(tab, numbering, self.options, boxes), self._patience)
        if view is None:
            raise PageError("the page closed its window; look again")
        self._viewed, self._viewed_document = tab, tab.documents
        tabs = tuple(other.page.url for other in self._windows.tabs)
        notices = () if boxes else self._windows.take_notices()
        self._view = view = replace(view, tabs=tabs, tab=self._windows.current, notices=notices)
        return view

    async def _shut(self) -> None:
        if self._closed:
            return
        self._closed = True
        with suppress(Exception):  # a dead driver has closed it already, and fails with bare exceptions
            async with asyncio.timeout(CLOSE_S):
                await self._context.close()
        self._recording.discard()
        await self._on_close()


def bounded_text(text: str) -> str:
    """Return the text; raises `PageError` if it is too long to enter."""
    if len(text) > MAX_TEXT:
        raise PageError(f"the text has {len(text)} characters; at most {MAX_TEXT} can be entered at once")
    return text


def _first_line(message: str) -> str:
    line = message.strip().split("\n")[0]
    return re.sub(r"^(Error: )?\w+\.\w+: (Error: )?", "", line)[:300]
