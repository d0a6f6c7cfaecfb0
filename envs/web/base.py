"""`BrowserEnv`: the tools and views of a browser for a policy. Subclasses define the tasks.

It uses `agentgym.tools.browser`: one context per episode, a time limit for every call, and only the task's own
addresses are reachable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from agentgym.base.choices import one_of
from agentgym.base.errors import UsageError
from agentgym.core.engine.steps import Solution
from agentgym.core.messages import Pictured, ToolCall
from agentgym.core.rewards import OUTCOME, Channel
from agentgym.envs.web.acting import BrowserTools, as_infrastructure_failure, show_view, with_picture
from agentgym.envs.web.pointing import with_points
from agentgym.tools.browser import BrowserOptions, SessionOptions, default_pool

Observe = Literal["changes", "whole"]
Screenshots = Literal["none", "plain", "marks"]
Actions = Literal["refs", "pixels", "both"]

_REFS = ("click", "double_click", "type", "select", "hover", "upload")
_PIXELS = ("click_at", "double_click_at", "hover_at", "drag", "type_text", "select")
"""Lists of options open outside the page, where no point is: `select` takes their refs."""
_HOW: Mapping[Actions, str] = {
    "refs": "Act on elements by their refs.",
    "pixels": "Act on points of the page, in pixels from its top left corner.",
    "both": "Act on elements by their refs, or on points of the page, in pixels from its top left corner.",
}
"""Sentence about the tools in the system prompt, by the offered actions."""
_POINT = ToolCall("click_at", {"x": 320, "y": 180})
"""The example call if no tool takes a ref."""
_DEADLINE_S = 20.0
_OWN_DEADLINE_S = 60.0
"""Time limit of an action on bundled pages: long enough for a busy machine."""
_COMMON = ("press", "scroll", "goto", "back", "tab", "wait", "dialog", "look")


class BrowserEnv(BrowserTools):
    """Base class of environments in a browser.

    Args:
        observe: What to show after an action: `"changes"` of the page, or the `"whole"` page.
        view_chars: Characters of a page to show at a time; `look` shows the other parts.
        screenshots: `"none"`; `"plain"`: pictures with the text; `"marks"`: pictures with the refs drawn on them.
        actions: Offer tools that act on `"refs"`, on `"pixels"`, or `"both"`.
        offer: Names of the tools to offer, for small models; the tools of `actions` if not given.
        viewport: Width and height of the page in CSS pixels.
        executable: The Chromium to use; the installed one if not given (`agentgym.tools.browser`).
        max_sessions: Most browser contexts of this process at a time. About four per core keep it busy.
        kwargs: Arguments of `agentgym.Env`.
    """

    channels = {
        OUTCOME: Channel("1 if the task was solved"),
        "format": Channel("1 if the action parsed and its arguments were valid", per_turn=True, cheap=True),
        "valid": Channel("1 if the action succeeded on the page", per_turn=True, cheap=True),
        "finished": Channel("1 if the policy ended the episode itself", cheap=True),
    }
    max_turns = 30
    endings: tuple[str, ...] = ("finish", "answer")
    """Tools that report the end of the task."""
    needed: tuple[str, ...] = ()
    """Tools to offer besides those of `actions`."""
    unneeded: tuple[str, ...] = ()
    """Tools that are offered only if requested by name."""

    harmless_arguments = BrowserTools.harmless_arguments | {
        "observe",
        "view_chars",
        "screenshots",
        "actions",
        "offer",
        "viewport",
    }

    def __init__(
        self,
        *,
        observe: Observe = "changes",
        view_chars: int = 6_000,
        screenshots: Screenshots = "none",
        actions: Actions = "refs",
        offer: Sequence[str] | None = None,
        viewport: tuple[int, int] = (1280, 720),
        executable: str | None = None,
        max_sessions: int = 16,
        **kwargs: Any,
    ):
        one_of("actions", actions, get_args(Actions))
        acting = (*(_REFS if actions != "pixels" else ()), *(_PIXELS if actions != "refs" else ()), *self.needed)
        offered = [name for name in (*acting, *_COMMON, *self.endings) if name not in self.unneeded]
        self.tools = type(self).tools.only(*dict.fromkeys(offer or offered))
        super().__init__(**kwargs)
        self.system_prompt = self.system_prompt.replace(_HOW["refs"], _HOW[actions])
        if actions == "pixels" and self.example_call is not None:
            self.example_call = _POINT
        self._whole = one_of("observe", observe, get_args(Observe)) == "whole"
        self._pictures = one_of("screenshots", screenshots, get_args(Screenshots))
        if view_chars < 200:
            raise UsageError(f"view_chars must be at least 200, not {view_chars!r}")
        self._view_chars = view_chars
        self._viewport = (int(viewport[0]), int(viewport[1]))
        self._executable = executable
        if max_sessions < 1:
            raise UsageError(f"max_sessions must be at least 1, not {max_sessions!r}")
        self._max_sessions = self.max_concurrent = max_sessions

    @classmethod
    def packages(cls, kwargs: Mapping[str, Any]) -> Mapping[str, str]:
        """See `Env.packages`."""
        return {"playwright": "web"}

    def release(self) -> None:
        """Release the browser context."""
        self._leave()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_session": None, "_view": None}

    def _open(
        self,
        *,
        allowed: tuple[str, ...],
        resolve: Mapping[str, str] | None = None,
        reachable: tuple[str, ...] = (),
        **more: Any,
    ) -> None:
        """Open a fresh browser context that reaches only `allowed`. Bundled pages are trusted."""
        self._leave()
        names = tuple(sorted((resolve or {}).items()))
        browser = BrowserOptions(self._executable, names, reachable, self._max_sessions)
        pool = default_pool(browser)
        trusted = not reachable
        deadline = _OWN_DEADLINE_S if trusted else _DEADLINE_S
        options = SessionOptions(allowed, viewport=self._viewport, deadline=deadline, trusted=trusted, **more)
        self._session = pool.open(options)

    def _open_outside(self, allowed: tuple[str, ...], **more: Any) -> None:
        """Open a fresh browser context for sites that others run, whose pages are not trusted."""
        hosts = tuple(sorted({urlsplit(origin).hostname or "" for origin in allowed}))
        self._open(allowed=allowed, reachable=hosts, **more)

    def _in_tools(self, moves: Solution) -> Solution:
        """Return a solution that acts on elements in the tools on offer: refs, or points."""
        return moves if "click" in self.tools.names else with_points(moves, self._page)

    def _leave(self) -> None:
        session, self._session, self._view = self._session, None, None
        if session is not None:
            session.close()

    def _opening(self, text: str) -> str | Pictured:
        """Return an opening message: `text` and the current page."""
        self._answer = None
        with as_infrastructure_failure():
            self._view = self._page.view()
        return with_picture(f"{text}\n\n{show_view(self._view, None, self._view_chars)}", self._picture())
