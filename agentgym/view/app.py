"""The application behind `agentgym view`: the page, and what it asks for as JSON. It only ever reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentgym.errors import AgentGymError, UsageError
from agentgym.view.collection import Collection
from agentgym.view.contents import Contents
from agentgym.view.overview import overview
from agentgym.view.page import SERVED_POLICY, script, served_page, style
from agentgym.view.pay import Schemes
from agentgym.view.rows import Row, options
from agentgym.view.search import Search
from agentgym.view.versus import sides, versus

MAX_ROWS = 500
_HEADERS = {
    "Content-Security-Policy": SERVED_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_STATIC: dict[str, tuple[Callable[[], str], str]] = {
    "/": (served_page, "text/html"),
    "/viewer.js": (script, "text/javascript"),
    "/viewer.css": (style, "text/css"),
}
Wanted = Mapping[str, str]


class _Answers:
    """What the page asks for. The methods are named as in `data/source.js`."""

    def __init__(self, collection: Collection, schemes: Schemes):
        self._collection = collection
        self._contents = Contents(collection, schemes)
        self._search = Search(collection)
        self._choices: tuple[str, dict[str, Any]] = ("", {})
        """What can be chosen, for a version of the collection: the page asks again and again whether there is more."""

    def state(self, _: Wanted) -> dict[str, Any]:
        self._collection.refresh()
        seen = self._collection
        if self._choices[0] != seen.version:
            self._choices = seen.version, {"options": options(seen.rows), "sides": sides(seen.rows)}
        facts = {"title": seen.title, "files": seen.files, "version": seen.version, "total": len(seen.rows)}
        return {**facts, "note": "", **self._choices[1]}

    def list(self, wanted: Wanted) -> dict[str, Any]:
        rows = self._rows(wanted)
        start, count = _count(wanted, "from", 0), min(MAX_ROWS, _count(wanted, "count", 100))
        return {"total": len(rows), "from": start, "rows": rows[start : start + count]}

    def overview(self, wanted: Wanted) -> dict[str, Any]:
        return {**overview(self._rows(wanted)), "metrics": self._collection.metrics}

    def versus(self, wanted: Wanted) -> dict[str, Any]:
        return versus(self._collection.rows, _count(wanted, "a", 0), _count(wanted, "b", 1))

    def place(self, wanted: Wanted) -> dict[str, Any]:
        keys = [row["key"] for row in self._rows(wanted)]
        key = wanted.get("key", "")
        at = keys.index(key) if key in keys else -1
        previous = keys[at - 1] if at > 0 else None
        following = keys[at + 1] if 0 <= at < len(keys) - 1 else None
        return {"at": at, "total": len(keys), "previous": previous, "next": following}

    def trajectory(self, wanted: Wanted) -> dict[str, Any]:
        return self._contents.of(wanted.get("key", ""))

    def tokens(self, wanted: Wanted) -> dict[str, Any] | None:
        return self._contents.tokens(wanted.get("key", ""))

    def _rows(self, wanted: Wanted) -> list[Row]:
        text = wanted.get("q", "")
        return [*self._collection.select(wanted, self._search.find(text) if text else None)]


def make_app(collection: Collection, *, trust: bool = False) -> Starlette:
    """Return the application.

    Args:
        collection: What to show.
        trust: Accept any class and any argument of an environment from the recordings, to read its reward scheme.
    """
    answers = _Answers(collection, Schemes(trust=trust))
    asked = ("state", "list", "overview", "versus", "place", "trajectory", "tokens")
    routes = [Route(f"/api/{name}", _json(getattr(answers, name))) for name in asked]
    routes += [Route(path, _static(make, kind)) for path, (make, kind) in _STATIC.items()]
    # A page on the Internet must not reach this server through a name of its own that leads to this machine.
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    return Starlette(routes=routes, middleware=[hosts])


def _json(method: Callable[[Wanted], Any]) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        try:
            data, status = method(dict(request.query_params)), 200
        except AgentGymError as error:
            data, status = {"detail": str(error)}, 400
        return Response(json.dumps(data, allow_nan=False), status, _HEADERS, "application/json")

    return answer


def _static(make: Callable[[], str], kind: str) -> Callable[[Request], Response]:
    return lambda request: Response(make(), 200, _HEADERS, kind)


def _count(wanted: Wanted, name: str, default: int) -> int:
    text = wanted.get(name) or str(default)
    if not text.isdecimal() or len(text) > 9:
        raise UsageError(f"{name} must be a whole number from 0, not {text[:50]!r}")
    return int(text)
