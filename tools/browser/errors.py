"""What goes wrong with a browser: the model's mistakes (`PageError`) and our own failures (`BrowserGone`)."""

from __future__ import annotations

from agentgym.errors import InfrastructureError, ToolError


class PageError(ToolError):
    """An action that cannot be done on this page; the message says why and what to do instead."""


class BrowserGone(InfrastructureError):
    """The browser, its driver or the page's process died; the episode has to be played again."""
