"""A real browser for environments: one context per episode, with bounded time and size.

`default_pool(BrowserOptions(...)).open(SessionOptions(...))` gives a `BrowserSession`: views are accessibility trees
with refs, actions take refs or coordinates, only allowed origins exist, and time and randomness are virtual.
"""

from agentgym.tools.browser.options import BrowserGone, BrowserOptions, PageError, SessionOptions
from agentgym.tools.browser.pool import BrowserPool, choose_executables, default_pool, find_executable
from agentgym.tools.browser.session import BrowserSession
from agentgym.tools.browser.view import View, ViewNode, difference, page_of, pages_of

__all__ = [
    "BrowserGone",
    "BrowserOptions",
    "BrowserPool",
    "BrowserSession",
    "PageError",
    "SessionOptions",
    "View",
    "ViewNode",
    "choose_executables",
    "default_pool",
    "difference",
    "find_executable",
    "page_of",
    "pages_of",
]
