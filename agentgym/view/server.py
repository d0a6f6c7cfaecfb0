"""The application behind `agentgym view`: the page and its JSON data. It never writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agentgym.base.errors import AgentGymError, UsageError
from agentgym.view.collection import Collection, TextSearch
from agentgym.view.environments import Environments
from agentgym.view.facts import Contents, head_of, versus
from agentgym.view.page import SERVED_POLICY, script, served_page, style

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
Query = Mapping[str, str]


class _Answers:
    """The JSON data for the page. `Live` in `data/source.js` requests it by the names of the methods."""

    def __init__(self, collection: Collection, environments: Environments):
        self._collection = collection
        self._contents = Contents(collection, environments)
        self._search = TextSearch(collection)

    def rows(self, query: Query) -> dict[str, Any] | None:
        """Return the changes since a version; `None` if nothing has changed."""
        self._collection.refresh()
        version = query.get("version", "")
        return None if version == self._collection.version else head_of(self._collection, version)

    def search(self, query: Query) -> list[str]:
        return sorted(self._search.find(query.get("q", "")))

    def versus(self, query: Query) -> dict[str, Any]:
        return versus(self._collection, _count(query, "a", 0), _count(query, "b", 1))

    def trajectory(self, query: Query) -> dict[str, Any]:
        return self._contents.of(query.get("key", ""))

    def tokens(self, query: Query) -> dict[str, Any] | None:
        return self._contents.tokens(query.get("key", ""))


def make_app(collection: Collection, *, trust: bool = False) -> Starlette:
    """Return the application.

    Args:
        collection: The trajectories to show.
        trust: Accept any class and any argument of an environment from the recordings, to read its scheme and tasks.
    """
    answers = _Answers(collection, Environments(trust=trust))
    names = ("rows", "search", "versus", "trajectory", "tokens")
    routes = [Route(f"/api/{name}", _json(getattr(answers, name))) for name in names]
    routes += [Route(path, _static(make, kind)) for path, (make, kind) in _STATIC.items()]
    # Prevents DNS rebinding: a web page must not reach this server through a host name that resolves to this machine.
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    # Rows of large files compress well, and the browser may be at the other end of an SSH connection.
    packed = Middleware(GZipMiddleware, compresslevel=1)
    return Starlette(routes=routes, middleware=[hosts, packed])


def _json(method: Callable[[Query], Any]) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        try:
            data, status = method(dict(request.query_params)), 200
        except AgentGymError as error:
            data, status = {"detail": str(error)}, 400
        return Response(json.dumps(data, allow_nan=False), status, _HEADERS, "application/json")

    return answer


def _static(make: Callable[[], str], kind: str) -> Callable[[Request], Response]:
    return lambda request: Response(make(), 200, _HEADERS, kind)


def _count(query: Query, name: str, default: int) -> int:
    text = query.get(name) or str(default)
    if not text.isdecimal() or len(text) > 9:
        raise UsageError(f"{name} must be a whole number from 0, not {text[:50]!r}")
    return int(text)
