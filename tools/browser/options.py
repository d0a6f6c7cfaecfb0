"""Options of a browser process (`BrowserOptions`) and of one episode in it (`SessionOptions`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from agentgym.base.errors import InfrastructureError, ToolError, UsageError

ORIGIN = re.compile(r"(https?)://(\*\.)?([a-z0-9.-]+|\[[0-9a-f:]+\])(:\d+|:\*)?", re.IGNORECASE)
NAME = re.compile(r"(\*\.)?[a-zA-Z0-9.-]+")


@dataclass(frozen=True)
class BrowserOptions:
    """How to start Chromium. Sessions with equal options share browsers.

    Only names in `resolve` ((name, "address:port") pairs such as ("*.test", "127.0.0.1:8080")) and hosts in
    `reachable` exist for it; no other name or address does.
    """

    executable: str | None = None
    resolve: tuple[tuple[str, str], ...] = ()
    reachable: tuple[str, ...] = ()
    max_sessions: int = 16
    spare: int = 1
    recycle_after: int = 200
    locale: str = "en-US"
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        for name in (*(name for name, _ in self.resolve), *self.reachable):
            if NAME.fullmatch(name) is None:
                raise UsageError(f"{name!r} is not a host name; give one such as 'shop.test' or '*.test'")
        for _, address in self.resolve:
            if re.fullmatch(r"[\w.:\[\]-]+", address) is None:
                raise UsageError(f"{address!r} is not an address; give one such as '127.0.0.1:8080'")
        for what in ("max_sessions", "recycle_after"):
            if getattr(self, what) < 1:
                raise UsageError(f"{what} must be at least 1, not {getattr(self, what)!r}")
        if self.spare < 0:
            raise UsageError(f"spare must not be negative, not {self.spare!r}")

    @property
    def host_rules(self) -> str:
        """The value of Chromium's --host-resolver-rules."""
        rules = [f"MAP {name} {address}" for name, address in self.resolve]
        return ", ".join([*rules, "MAP * ~NOTFOUND", *(f"EXCLUDE {name}" for name in self.reachable)])


_LOOK_S = 5.0


@dataclass(frozen=True)
class SessionOptions:
    """The pages that one episode can reach, and how they behave.

    `allowed` are origins ("http://shop.test", "http://*.test", "http://127.0.0.1:*"); requests to all others fail.
    The page's clock starts at `clock`, stands still between actions and advances `tick` seconds with each; `seed` fixes
    its random numbers. `deadline` bounds an action in real seconds. `all_refs` gives every element a ref, not only the
    actionable ones. An action that takes too long raises `PageError`, which the policy sees, unless the pages are
    `trusted`: then it raises `InfrastructureError`. Requests to addresses that match `record` are recorded for
    `BrowserSession.network_log`.
    """

    allowed: tuple[str, ...]
    headers: Mapping[str, str] = field(default_factory=dict)
    viewport: tuple[int, int] = (1280, 720)
    clock: str = "2030-01-07T09:00:00Z"
    tick: float = 1.0
    seed: int = 0
    deadline: float = 5.0
    max_tabs: int = 5
    max_elements: int = 5000
    all_refs: bool = False
    trusted: bool = False
    record: re.Pattern[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.allowed, str) or not self.allowed:
            raise UsageError(f"allowed must be a tuple of origins such as ('http://shop.test',), not {self.allowed!r}")
        for origin in self.allowed:
            if ORIGIN.fullmatch(origin) is None:
                raise UsageError(
                    f"{origin!r} is not an origin; give one such as 'http://shop.test' or 'http://*.test:8080'"
                )
        for what in ("tick", "deadline", "max_tabs", "max_elements"):
            if getattr(self, what) <= 0:
                raise UsageError(f"{what} must be positive, not {getattr(self, what)!r}")
        if min(self.viewport) < 1 or max(self.viewport) > 4096:
            raise UsageError(f"viewport must be between 1 and 4096 pixels each way, not {self.viewport!r}")
        self.start  # noqa: B018

    @property
    def look_s(self) -> float:
        """Real seconds that reading a page may take; a trusted page gets the whole deadline."""
        return self.deadline if self.trusted else _LOOK_S

    @property
    def start(self) -> float:
        """The start of page time in seconds since 1970."""
        try:
            moment = datetime.fromisoformat(self.clock)
        except ValueError:
            raise UsageError(f"clock {self.clock!r} is not a time; give one such as '2030-01-07T09:00:00Z'") from None
        if moment.tzinfo is None:
            raise UsageError(f"clock {self.clock!r} has no time zone; add one, such as 'Z'")
        return moment.timestamp()

    @property
    def pattern(self) -> re.Pattern[str]:
        """Matches every allowed URL."""
        return re.compile("^(?:" + "|".join(_pattern(origin) for origin in self.allowed) + ")(?:[/?#]|$)")


def _pattern(origin: str) -> str:
    match = ORIGIN.fullmatch(origin)
    assert match is not None
    scheme, wildcard, host, port = match.groups()
    name = ("(?:[a-z0-9-]+\\.)+" if wildcard else "") + re.escape(host.lower())
    return f"{scheme.lower()}://{name}" + (r"(?::\d+)?" if port == ":*" else re.escape(port or ""))


class PageError(ToolError):
    """An action is impossible on this page; the message says why and what to do instead."""


class BrowserGone(InfrastructureError):
    """The browser, its driver or the page's process died; the episode must be retried."""
