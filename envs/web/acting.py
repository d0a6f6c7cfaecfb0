"""`BrowserTools`: the actions that a policy can take in a browser, as tools that show it the page afterwards.

Subclasses define the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal
from urllib.parse import urljoin

from agentgym.base.errors import InfrastructureError, ToolError
from agentgym.core.endings import Reason
from agentgym.core.env import Env
from agentgym.core.messages import Pictured, ToolCall
from agentgym.core.toolset import tool
from agentgym.tools.browser import BrowserSession, View, difference, page_of


def show_view(view: View, before: View | None, max_chars: int, part: int = 1) -> str:
    """Return a view as text.

    Args:
        view: The view to show.
        before: The view that the policy saw last; if given, only the changes are shown.
        max_chars: Characters of a part; a longer view states the number of parts.
        part: Number of the part, from 1.
    """
    if before is not None and before.text == view.text and before.url == view.url and not view.notices:
        return "Nothing changed."
    text = view.text if before is None else difference(before, view)
    return page_of(text, part, max_chars)


def with_picture(text: str, picture: bytes | None) -> str | Pictured:
    """Return `text` with a picture, if there is one."""
    return text if picture is None else Pictured(text, (picture,))


_MIN_WAIT_S, _MAX_WAIT_S = 0.1, 5.0


@contextmanager
def as_infrastructure_failure() -> Iterator[None]:
    """Turn errors of a page into infrastructure failures, for steps not taken by the policy."""
    try:
        yield
    except ToolError as problem:
        raise InfrastructureError(f"the browser cannot show the page: {problem}") from problem


class BrowserTools(Env):
    """Tools that act in the current browser session."""

    _session: BrowserSession | None = None
    _view: View | None = None
    _answer: str | None = None
    _whole: bool = False
    _pictures: str = "none"
    _view_chars: int = 6_000

    @tool
    def click(self, ref: str) -> str | Pictured:
        """Click an element.

        Args:
            ref: Its ref.
        """
        return self._act("click", {"ref": ref}, lambda page: page.click(ref))

    @tool
    def double_click(self, ref: str) -> str | Pictured:
        """Double-click an element.

        Args:
            ref: Its ref.
        """
        return self._act("double_click", {"ref": ref}, lambda page: page.click(ref, double=True))

    @tool(name="type")
    def type_into(self, ref: str, text: str) -> str | Pictured:
        """Replace the text of a field.

        Args:
            ref: The field's ref.
            text: The new text.
        """
        return self._act("type", {"ref": ref, "text": text}, lambda page: page.fill(ref, text))

    @tool
    def select(self, ref: str, option: str, also: list[str] | None = None) -> str | Pictured:
        """Choose an option of a list.

        Args:
            ref: The list's ref.
            option: The option's text.
            also: Further options to choose, if the list allows several.
        """
        return self._act(
            "select", {"ref": ref, "option": option}, lambda page: page.select(ref, [option, *(also or [])])
        )

    @tool
    def hover(self, ref: str) -> str | Pictured:
        """Move the mouse over an element.

        Args:
            ref: Its ref.
        """
        return self._act("hover", {"ref": ref}, lambda page: page.hover(ref))

    @tool
    def upload(self, ref: str, name: str, text: str) -> str | Pictured:
        """Choose a text file in a file field.

        Args:
            ref: The field's ref.
            name: Name of the file.
            text: Content of the file.
        """
        files = {name: text.encode()}
        return self._act("upload", {"ref": ref, "name": name}, lambda page: page.upload(ref, files))

    @tool
    def click_at(self, x: float, y: float) -> str | Pictured:
        """Click a point of the page.

        Args:
            x: Pixels from the left.
            y: Pixels from the top.
        """
        return self._act("click_at", {"x": x, "y": y}, lambda page: page.click_at(x, y))

    @tool
    def double_click_at(self, x: float, y: float) -> str | Pictured:
        """Double-click a point of the page.

        Args:
            x: Pixels from the left.
            y: Pixels from the top.
        """
        return self._act("double_click_at", {"x": x, "y": y}, lambda page: page.click_at(x, y, double=True))

    @tool
    def hover_at(self, x: float, y: float) -> str | Pictured:
        """Move the mouse to a point of the page.

        Args:
            x: Pixels from the left.
            y: Pixels from the top.
        """
        return self._act("hover_at", {"x": x, "y": y}, lambda page: page.move_to(x, y))

    @tool
    def drag(
        self, x1: float, y1: float, x2: float, y2: float, through: list[list[float]] | None = None
    ) -> str | Pictured:
        """Drag the mouse from one point to another.

        Args:
            x1: Start, pixels from the left.
            y1: Start, pixels from the top.
            x2: End, pixels from the left.
            y2: End, pixels from the top.
            through: Points to pass on the way, such as [[30, 40], [50, 60]]; by default a straight line.
        """
        return self._act("drag", {}, lambda page: page.drag(x1, y1, x2, y2, through or ()))

    @tool
    def select_text(self, text: str, ref: str = "") -> str | Pictured:
        """Select a text on the page, as with the mouse.

        Args:
            text: The text.
            ref: Ref of the element that shows it; by default, the first place on the page.
        """
        return self._act("select_text", {"text": text}, lambda page: page.select_text(text, ref or None))

    @tool
    def type_text(self, text: str) -> str | Pictured:
        """Type text into the focused element.

        Args:
            text: The text to type.
        """
        return self._act("type_text", {"text": text}, lambda page: page.type_text(text))

    @tool
    def press(self, key: str) -> str | Pictured:
        """Press a key.

        Args:
            key: Name of the key, such as Enter, Escape, Tab, ArrowDown or Control+a.
        """
        return self._act("press", {"key": key}, lambda page: page.press(key))

    @tool
    def scroll(
        self, direction: Literal["up", "down", "left", "right"], ref: str = "", screens: float = 0.8
    ) -> str | Pictured:
        """Scroll the page or a part of it.

        Args:
            direction: Direction to scroll in.
            ref: Ref of the element to scroll; by default, the page.
            screens: How far, as a share of what is visible; at most 100, which reaches the end.
        """
        return self._act("scroll", {}, lambda page: page.scroll(direction, screens, ref or None))

    @tool
    def goto(self, address: str) -> str | Pictured:
        """Open an address of this site.

        Args:
            address: A path such as /cart, or a full address.
        """
        return self._act("goto", {"address": address}, lambda page: page.goto(self._absolute(address)))

    @tool
    def back(self) -> str | Pictured:
        """Go back to the previous page."""
        return self._act("back", {}, lambda page: page.back())

    @tool
    def tab(self, number: int) -> str | Pictured:
        """Switch to another tab.

        Args:
            number: Number of the tab, as shown with the page.
        """
        return self._act("tab", {}, lambda page: page.switch_tab(number))

    @tool
    def wait(self, seconds: float) -> str | Pictured:
        """Wait for the page to change.

        Args:
            seconds: How long to wait, at most 5.
        """
        return self._act("wait", {}, lambda page: page.wait(min(max(seconds, _MIN_WAIT_S), _MAX_WAIT_S)))

    @tool
    def dialog(self, accept: bool, text: str = "") -> str:
        """Set the response to the next dialog of the page. Without this, the dialog is dismissed.

        Args:
            accept: Whether to accept the dialog.
            text: Text to enter, if the dialog asks for text.
        """
        self._page.dialog(accept, text or None)
        self.reward("valid", 1.0)
        return "The response to the next dialog is set."

    @tool
    def look(self, part: int) -> str | Pictured:
        """Show the whole page, or one part of a long page.

        Args:
            part: Number of the part, from 1.
        """
        self._view = self._page.view()
        self.reward("valid", 1.0)
        return with_picture(show_view(self._view, None, self._view_chars, part), self._picture())

    @tool(name="finish")
    def finish_task(self) -> str:
        """Report that the task is done. This ends the episode."""
        return self._end_with("finish", {})

    @tool
    def answer(self, text: str) -> str:
        """Give the answer that the task asks for. This ends the episode.

        Args:
            text: Only the answer.
        """
        if not text.strip():
            raise ToolError("The answer is empty.")
        self._answer = text.strip()
        return self._end_with("answer", {"text": text})

    # Hooks for subclasses.

    def on_action(self, call: ToolCall) -> None:
        """Called after an action, while the current view is still the one before it."""

    def after_action(self) -> None:
        """Called after the page has processed an action, which may have decided the task."""

    # Implementation.

    @property
    def _page(self) -> BrowserSession:
        if self._session is None:
            raise InfrastructureError("the browser's page is gone; reset the environment")
        return self._session

    def _act(self, name: str, arguments: Mapping[str, Any], do: Callable[[BrowserSession], None]) -> str | Pictured:
        before = self._view
        do(self._page)
        self.on_action(ToolCall(name, arguments))
        self.reward("valid", 1.0)
        self.after_action()
        if self.reason is not None:
            return "Done."
        self._view = self._page.view()
        previous = None if self._whole else before
        return with_picture(show_view(self._view, previous, self._view_chars), self._picture())

    def _end_with(self, name: str, arguments: Mapping[str, Any]) -> str:
        self.on_action(ToolCall(name, arguments))
        self.reward("valid", 1.0)
        self.reward("finished", 1.0)
        self.finish(Reason.ANSWERED)
        return "Done."

    def _picture(self) -> bytes | None:
        if self._pictures == "none":
            return None
        with as_infrastructure_failure():
            return self._page.screenshot(marks=self._pictures == "marks")

    def _absolute(self, address: str) -> str:
        """Return an absolute address; a relative one is resolved against the current page."""
        return urljoin(self._view.url if self._view else "", address.strip())
