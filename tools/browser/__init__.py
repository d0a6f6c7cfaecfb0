"""A real browser for environments: one context per episode, with bounded time and size.

`default_pool(BrowserOptions(...)).open(SessionOptions(...))` gives a `BrowserSession`: views are accessibility trees
with refs, actions take refs or coordinates, only allowed origins exist, and time and randomness are virtual.
"""

from agentgym.tools.browser.errors import BrowserGone, PageError
from agentgym.tools.browser.launching import choose_executables, find_executable
from agentgym.tools.browser.observe import difference, page_of, pages_of
from agentgym.tools.browser.options import BrowserOptions, SessionOptions
from agentgym.tools.browser.pool import BrowserPool, default_pool
from agentgym.tools.browser.session import BrowserSession
from agentgym.tools.browser.view import View, ViewNode

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
