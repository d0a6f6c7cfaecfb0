"""Serves environments: the WebSocket that `RemoteEnv` uses, and the same as plain HTTP, on one address."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from functools import partial

from fastapi import FastAPI

from agentgym.interop.remote.wire import STREAM
from agentgym.tools.env_server.app import make_app
from agentgym.tools.env_server.offer import EnvServing, Offer
from agentgym.tools.env_server.sessions import Sessions
from agentgym.tools.env_server.stream import talk
from agentgym.tools.listening import run_server
from agentgym.tools.serving.limits import ConnectionLimits
from agentgym.tools.serving.streams import Streams

_HTTP_CONNECTIONS = 64
"""Connections besides two for each session: its own, and the next one while a broken one ends."""


@dataclass(frozen=True)
class EnvServer:
    """The parts of a server of environments."""

    sessions: Sessions
    app: FastAPI
    streams: Streams
    limits: ConnectionLimits


def make_server(offer: Offer, serving: EnvServing) -> EnvServer:
    """Return a server's parts, which share their sessions."""
    sessions = Sessions(offer, serving)
    limits = ConnectionLimits(connections=2 * serving.sessions + _HTTP_CONNECTIONS, body_bytes=serving.request_bytes)
    streams = Streams(STREAM, serving.token, partial(talk, sessions), limits, serving.idle_s)
    return EnvServer(sessions, make_app(sessions, offer, serving.token), streams, limits)


def serve_envs(offer: Offer, serving: EnvServing, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM."""
    server = make_server(offer, serving)
    run_server(server.app, listening, server.limits, server.streams.protocol)
