"""The web application of a gateway: chat completions for agents, sessions and rewards for its owner."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agentgym.interop.gateway.chat_answers import ChatStream, head_of, whole
from agentgym.interop.gateway.clients import HANDLERS, read_request, while_there
from agentgym.interop.gateway.draft import Draft
from agentgym.interop.gateway.errors import Refused
from agentgym.interop.gateway.gateway import Gateway
from agentgym.interop.gateway.live import streamed
from agentgym.interop.gateway.owner import end, played
from agentgym.interop.gateway.requests import ChatRequest
from agentgym.interop.gateway.rows import Reply
from agentgym.interop.gateway.session import GatewaySession

BODY_BYTES = 32 << 20
"""A call carries the whole conversation, pictures included."""

_RETRY = "x-stainless-retry-count"
"""With which the client of OpenAI says how often it has made the same call before."""

Handler = Callable[[Request], Awaitable[Response]]


def make_app(gateway: Gateway, body_bytes: int = BODY_BYTES) -> Starlette:
    """Return the application.

    Args:
        gateway: What it serves.
        body_bytes: Maximum size of a request's body.
    """
    answers = _Answers(gateway, body_bytes)
    agents: list[tuple[str, Handler, str]] = [
        ("/v1/chat/completions", answers.chat, "POST"),
        ("/v1/models", answers.models, "GET"),
        ("/v1/models/{model:path}", answers.model, "GET"),
    ]
    owner: list[tuple[str, Handler, str]] = [
        ("/s/{session}", answers.open, "POST"),
        ("/s/{session}/reward", answers.reward, "POST"),
    ]
    routes = [
        Route(f"{start}{path}", one, methods=[method]) for path, one, method in agents for start in ("", "/s/{session}")
    ]
    routes += [Route(path, one, methods=[method]) for path, one, method in owner]
    return Starlette(routes=routes, exception_handlers=HANDLERS)


class _Answers:
    """What answers the requests."""

    def __init__(self, gateway: Gateway, body_bytes: int):
        self._gateway, self._body_bytes = gateway, body_bytes

    async def chat(self, request: Request) -> Response:
        """Answer an agent's call of the chat completions API."""
        session = self._session(request)
        wanted = ChatRequest.of(await read_request(request, self._body_bytes))
        head = head_of(session.name, wanted.model or self._gateway.policy.name)
        headers = {"x-agentgym-ignored": ", ".join(wanted.ignored)} if wanted.ignored else {}

        async def reply(draft: Draft | None = None) -> Reply:
            return await session.reply(wanted, is_retry=_is_retry(request), draft=draft)

        if wanted.stream:
            stream = ChatStream(head, wanted)
            return await streamed(request, reply, stream, headers, self._gateway.settings.silent_s)
        return JSONResponse(whole(head, await while_there(request, reply()), wanted), headers=headers)

    async def models(self, request: Request) -> Response:
        """List the one model that there is."""
        self._session(request)
        return JSONResponse({"object": "list", "data": [_model(self._gateway.policy.name)]})

    async def model(self, request: Request) -> Response:
        """Describe a model. Agents may call the one that there is as they like."""
        self._session(request)
        return JSONResponse(_model(request.path_params["model"]))

    async def open(self, request: Request) -> Response:
        """Open a session for its owner."""
        self._check_owner(request)
        about = played(await read_request(request, self._body_bytes))
        session = self._gateway.session(request.path_params["session"], about)
        return JSONResponse({"session": session.name, "api_key": session.api_key, "base_url": session.base_url})

    async def reward(self, request: Request) -> Response:
        """End a session, and return its trajectories."""
        self._check_owner(request)
        session = self._gateway.find(request.path_params["session"])
        end(session, await read_request(request, self._body_bytes))
        ended = self._gateway.close_session(session)
        return JSONResponse({"trajectories": [one.to_dict() for one in ended]})

    def _session(self, request: Request) -> GatewaySession:
        """Return the session of an agent: the one in the path, or the one that its key names."""
        key = _key(request)
        name = request.path_params.get("session")
        if (named := self._gateway.session_in(key)) is not None:
            return self._gateway.find_or_open(name or named or "default")
        if name is not None and key and _same(key, self._gateway.find(name).api_key):
            return self._gateway.find(name)
        raise Refused("the API key is missing or wrong", 401, "invalid_api_key")

    def _check_owner(self, request: Request) -> None:
        if not self._gateway.is_owner(_key(request)):
            raise Refused("only the owner of the gateway may do this", 401, "invalid_api_key")


def _is_retry(request: Request) -> bool:
    return request.headers.get(_RETRY, "0") != "0"


def _same(given: str, key: str) -> bool:
    return hmac.compare_digest(given.encode(), key.encode())


def _key(request: Request) -> str:
    return request.headers.get("authorization", "").removeprefix("Bearer ").strip()


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "agentgym"}
