"""The answer of a site's page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SiteReply:
    """The answer of a page: HTML, or an address to go to next."""

    body: str = ""
    status: int = 200
    location: str | None = None
    notice: str | None = None
    """Shown once, on the next page."""
