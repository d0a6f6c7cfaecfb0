"""Actions on elements by ref: click, fill, type, press, select, check, hover, scroll, upload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from agentgym.tools.browser.acting import SELECTED, SLOW_MS, Acting, Target, bounded_text, choose
from agentgym.tools.browser.bridge import bridged
from agentgym.tools.browser.options import PageError
from agentgym.tools.browser.tab import Tab, script

Button = Literal["left", "middle", "right"]
Direction = Literal["up", "down", "left", "right"]
BUTTONS = ("left", "middle", "right")
WAYS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}
MAX_TYPED = 500
MAX_UPLOAD = 8_000_000
FORMS = {
    "date": "2030-01-31",
    "time": "15:30",
    "datetime-local": "2030-01-31T15:30",
    "month": "2030-01",
    "week": "2030-W05",
    "number": "12.5",
    "range": "50",
    "color": "#ff8800",
}
SELECT_ALL = "(field) => { field.focus(); field.select ? field.select() : getSelection().selectAllChildren(field); }"
SCROLL = """(element, [dx, dy]) => {
  let node = element;
  const can = (n) => (dy ? n.scrollHeight > n.clientHeight : n.scrollWidth > n.clientWidth)
    && !/visible|hidden|clip/.test(getComputedStyle(n)[dy ? 'overflowY' : 'overflowX']);
  while (node && node !== document.scrollingElement && !can(node)) node = node.parentElement;
  node = node || document.scrollingElement || document.documentElement;
  const before = [node.scrollLeft, node.scrollTop];
  node.scrollBy({left: dx * node.clientWidth, top: dy * node.clientHeight, behavior: 'instant'});
  return before[0] !== node.scrollLeft || before[1] !== node.scrollTop;
}"""


class ElementActions(Acting):
    """Actions on the elements of the last view."""

    @bridged
    async def click(self, ref: str, button: Button = "left", double: bool = False) -> None:
        """Click an element with real mouse events."""
        if button not in BUTTONS:
            raise PageError(f"unknown mouse button {button!r}; choose one of {', '.join(BUTTONS)}")

        async def work(tab: Tab) -> None:
            await self._press_mouse(tab, await self._on(tab, ref), button, 2 if double else 1)

        await self._act(work)

    @bridged
    async def fill(self, ref: str, text: str) -> None:
        """Replace the content of a text field, one key at a time; text of several lines is pasted."""

        async def work(tab: Tab) -> None:
            target = self._editable(await self._on(tab, ref))
            if (form := FORMS.get(target.facts["type"])) is not None:
                await target.locator.fill(bounded_text(text), force=True, timeout=SLOW_MS)
                if await target.locator.input_value() != text:
                    raise PageError(f"{target.label} does not accept {text[:80]!r}; the format is {form}")
                return
            await target.locator.evaluate(SELECT_ALL, timeout=SLOW_MS)
            if not text:
                await self._key(tab, "Delete")
            elif "\n" in text:
                await tab.page.keyboard.insert_text(bounded_text(text))
            else:
                await self._type(tab, text)

        await self._act(work)

    @bridged
    async def type(self, ref: str, text: str) -> None:
        """Click a text field and type at its caret, one key at a time."""

        async def work(tab: Tab) -> None:
            await self._press_mouse(tab, self._editable(await self._on(tab, ref)), "left", 1)
            await self._type(tab, text)

        await self._act(work)

    @bridged
    async def press(self, key: str, ref: str | None = None) -> None:
        """Press a key or a combination such as "Control+a", on an element if `ref` is given."""

        async def work(tab: Tab) -> None:
            if ref is not None:
                target = await self._on(tab, ref, visible=False)
                await target.locator.focus(timeout=SLOW_MS)
            await self._key(tab, key)

        await self._act(work)

    @bridged
    async def select(self, ref: str, values: Sequence[str]) -> None:
        """Choose options of a list by their labels or values."""
        names = [values] if isinstance(values, str) else list(values)

        async def work(tab: Tab) -> None:
            target = await self._on(tab, ref, visible=False)
            await target.locator.select_option(index=choose(target, names), force=True, timeout=SLOW_MS)

        await self._act(work)

    @bridged
    async def check(self, ref: str) -> None:
        """Tick a checkbox, radio button or switch."""
        await self._act(lambda tab: self._ticked(tab, ref, True))

    @bridged
    async def uncheck(self, ref: str) -> None:
        """Clear a checkbox or switch."""
        await self._act(lambda tab: self._ticked(tab, ref, False))

    @bridged
    async def hover(self, ref: str) -> None:
        """Move the mouse onto an element."""

        async def work(tab: Tab) -> None:
            target = await self._on(tab, ref)
            await tab.move_mouse(target.x, target.y)

        await self._act(work)

    @bridged
    async def select_text(self, text: str, ref: str | None = None) -> None:
        """Select the first occurrence of a text on the page, or in an element; whole words come first."""

        async def work(tab: Tab) -> None:
            element = tab.page.locator("body")
            if ref is not None:
                element = (await self._on(tab, ref, visible=False, enabled=False)).locator
            if not await element.evaluate(script("select.js"), text, timeout=SLOW_MS):
                raise PageError(f"the text {text[:80]!r} is not there; give it as the page shows it")

        await self._act(work)

    @bridged
    async def spot(self, ref: str) -> dict[str, Any]:
        """Return the point to click on an element, without scrolling. Never expose it to models.

        Returns:
            `x` and `y`, in pixels of the element's own frame; `problem`, empty if the point can be clicked; `away`, the
            direction to scroll in until the element appears; the `type` of an input; the `left` of the element.
        """
        async with self._lock:
            self._check()
            tab = self._windows.tab
            locator = tab.locator(self._node(tab, ref).handle)
            return await self._guarded(
                locator.evaluate(script("locate.js"), True, timeout=SLOW_MS), self.options.deadline
            )

    @bridged
    async def scroll(self, direction: Direction, amount: float = 0.8, ref: str | None = None) -> None:
        """Scroll the page, or an element's nearest scrollable ancestor, by `amount` of the visible height or width."""
        if direction not in WAYS:
            raise PageError(f"unknown direction {direction!r}; choose one of {', '.join(WAYS)}")
        if not 0 < amount <= 100:
            raise PageError(f"cannot scroll by {amount!r} screens; give a number between 0 and 100")
        step = [way * amount for way in WAYS[direction]]

        async def work(tab: Tab) -> None:
            # Before and after: a page with infinite scrolling is notified when its end enters or leaves the viewport.
            await tab.draw()
            if ref is not None:
                target = await self._on(tab, ref, visible=False, enabled=False)
                scrolled = await target.locator.evaluate(SCROLL, step, timeout=SLOW_MS)
            else:
                scrolled = await tab.ask(f"({SCROLL})(document.scrollingElement, {step})")
            if not scrolled:
                raise PageError(f"cannot scroll {direction} any further")
            await tab.draw()

        await self._act(work)

    @bridged
    async def upload(self, ref: str, files: Mapping[str, bytes]) -> None:
        """Upload files (name to content) to a file field, or to a button that opens a file chooser."""
        if sum(map(len, files.values())) > MAX_UPLOAD:
            raise PageError(f"the files are too large; at most {MAX_UPLOAD} bytes can be uploaded")
        payload = [{"name": name, "mimeType": "", "buffer": content} for name, content in files.items()]

        async def work(tab: Tab) -> None:
            target = await self._on(tab, ref, visible=False)
            if target.facts["type"] == "file":
                await target.locator.set_input_files(payload, timeout=SLOW_MS)  # pyright: ignore[reportArgumentType]
                return
            await self._press_mouse(tab, await self._on(tab, ref), "left", 1)
            if (chooser := await self._windows.choosing()) is None:
                raise PageError(f"{target.label} did not ask for a file")
            await chooser.set_files(payload, timeout=SLOW_MS)  # pyright: ignore[reportArgumentType]

        await self._act(work)

    async def _ticked(self, tab: Tab, ref: str, checked: bool) -> None:
        target = await self._on(tab, ref)
        if not target.facts["tickable"]:
            raise PageError(f"{target.label} is not a checkbox, radio button or switch")
        if target.facts["checked"] != checked:
            await self._press_mouse(tab, target, "left", 1)

    def _editable(self, target: Target) -> Target:
        if not target.facts["editable"] or target.facts["tag"] == "select":
            raise PageError(f"{target.label} is not a text field")
        if target.facts["readonly"]:
            raise PageError(f"{target.label} is read-only")
        return target

    async def _press_mouse(self, tab: Tab, target: Target, button: Button, count: int) -> None:
        if target.facts["tag"] == "option":
            raise PageError(f"{target.label} is an option; use the select action on its list instead")
        await tab.page.mouse.click(target.x, target.y, button=button, click_count=count)

    async def _type(self, tab: Tab, text: str) -> None:
        if len(text) <= MAX_TYPED:
            await tab.page.keyboard.type(text)
        else:
            await tab.page.keyboard.insert_text(bounded_text(text))

    async def _key(self, tab: Tab, key: str) -> None:
        """Press a key. The clipboard is the session's own: that of the browser is shared with other sessions."""
        from playwright.async_api import Error

        shortcut = key.lower()
        if shortcut == "control+v":
            await tab.page.keyboard.insert_text(self._copied)
            return
        if shortcut in ("control+c", "control+x"):
            self._copied = await tab.ask(SELECTED)
        try:
            await tab.page.keyboard.press(key)
        except Error as problem:
            if "Unknown key" not in problem.message:
                raise
            raise PageError(
                f"no key {key[:40]!r}; use names such as Enter, Tab, Escape, Backspace, Delete, Space, "
                "ArrowDown, PageDown, Home, End, F5, a, A, or Control+a"
            ) from None
