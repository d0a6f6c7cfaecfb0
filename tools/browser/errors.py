"""Browser errors: the model's mistakes (`PageError`) and our own failures (`BrowserGone`)."""

from __future__ import annotations

from agentgym.errors import InfrastructureError, ToolError


class PageError(ToolError):
    """An action is impossible on this page; the message says why and what to do instead."""


class BrowserGone(InfrastructureError):
    """The browser, its driver or the page's process died; the episode must be retried."""
