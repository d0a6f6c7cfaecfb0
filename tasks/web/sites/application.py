"""The web application behind `SiteServer`: finds a request's site and episode, calls the page, sends the reply."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from agentgym.tasks.web.sites.episode import EPISODE_HEADER, SiteEpisode
from agentgym.tasks.web.sites.forms import SiteForm, clean
from agentgym.tasks.web.sites.pages import ASSETS, asset
from agentgym.tasks.web.sites.site import Route, SiteReply
from agentgym.tasks.web.sites.visit import PageProblem, Visit

BODY_MOST = 256 * 1024
REQUEST_MOST = 4 * 1024 * 1024
"""A form above `BODY_MOST` gets an error page of the site; one above this limit gets a bare HTTP reply."""
FIELDS_MOST = 500
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Episodes(Protocol):
    """Content that the application serves: the open episodes, and folders of files by host name."""

    def find(self, token: str) -> SiteEpisode | None:
        """Return the open episode with a token."""
        ...

    def folder(self, host: str) -> Path | None:
        """Return the folder served under a host name."""
        ...


class Application:
    """An ASGI application for all sites. Pages take about a millisecond, so they run in the event loop itself."""

    def __init__(self, server: Episodes):
        self._server = server
        self._files: dict[str, StaticFiles] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        host = request.headers.get("host", "").partition(":")[0].lower()
        folder = self._server.folder(host)
        if folder is not None:
            files = self._files.setdefault(host, StaticFiles(directory=folder))
            try:
                await files(scope, receive, send)
            except HTTPException as error:
                await _bare(error.status_code, "There is no such file.")(scope, receive, send)
            return
        try:
            response = await self._answer(request, host)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _answer(self, request: Request, host: str) -> Response:
        path: str = request.scope["path"]
        if path.startswith("/static/"):
            return _asset(path.removeprefix("/static/"))
        episode = self._server.find(request.headers.get(EPISODE_HEADER, ""))
        if episode is None or episode.site.host != host:
            return _bare(404, "Nothing is served here.")
        try:
            form = await _read_form(request)
        except PageProblem as problem:
            return _reply(episode, _error(_visit(episode, request, SiteForm()), problem))
        try:
            return _reply(episode, _run(episode, _visit(episode, request, form)))
        except Exception as error:
            if self._server.find(episode.token) is not episode:
                return _bare(404, "Nothing is served here.")  # The episode ended while this request was in flight.
            # Reported to the environment: the policy is not to blame for a broken site.
            episode.broken = f"{request.method} {path}: {error!r}"
            return _bare(500, "This page is broken.")


def _visit(episode: SiteEpisode, request: Request, form: SiteForm) -> Visit:
    try:
        query = {
            key: clean(",".join(values))[:500]
            for key, values in _multiple(request.scope["query_string"].decode("ascii", "replace")).items()
        }
    except PageProblem:
        query = {}
    method = "GET" if request.method == "HEAD" else request.method
    notice = episode.notice if method == "GET" else None
    return Visit(episode.site, episode.connection, episode.now, method, request.scope["path"], query, form, notice)


def _run(episode: SiteEpisode, visit: Visit) -> SiteReply:
    try:
        with episode.transaction():
            route, params = _route(visit)
            return route.handler(visit, **params)
    except PageProblem as problem:
        return _error(visit, problem)
    except sqlite3.OperationalError as error:
        if "full" not in str(error):
            raise
        return _error(visit, PageProblem(507, "This site has no room left for what you sent."))


def _route(visit: Visit) -> tuple[Route, dict[str, Any]]:
    allowed = False
    for route in visit.site.routes:
        params = route.match(visit.path)
        if params is None:
            continue
        if route.method == visit.method:
            return route, params
        allowed = True
    if allowed:
        raise PageProblem(405, "This address does not take that kind of request.")
    raise PageProblem(404, "There is no page at this address.")


def _error(visit: Visit, problem: PageProblem) -> SiteReply:
    return visit.page("error.html", problem.status, code=problem.status, message=problem.message)


def _reply(episode: SiteEpisode, reply: SiteReply) -> Response:
    if reply.location is not None:
        episode.notice = reply.notice
        return RedirectResponse(reply.location, reply.status, _HEADERS)
    episode.notice = None
    return HTMLResponse(reply.body, reply.status, _HEADERS)


async def _read_form(request: Request) -> SiteForm:
    if request.method != "POST":
        return SiteForm()
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise PageProblem(415, "This site only takes plain forms.")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BODY_MOST:
            raise PageProblem(413, "That is too much for one form.")
    return SiteForm(_multiple(body.decode("utf-8", "replace")))


def _multiple(text: str) -> dict[str, list[str]]:
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=FIELDS_MOST, errors="replace")
    except ValueError:
        raise PageProblem(400, "That form has too many fields.") from None


def _asset(name: str) -> Response:
    if name not in ASSETS:
        return _bare(404, "Nothing is served here.")
    headers = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}
    return Response(asset(name), 200, headers, ASSETS[name])


def _bare(status: int, message: str) -> Response:
    html = f"<!doctype html><html lang=en><title>{status}</title><h1>{status}</h1><p>{message}</p></html>"
    return HTMLResponse(html, status, _HEADERS)
