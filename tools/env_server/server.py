"""Serves environments: the WebSocket that `RemoteEnv` uses, and the same as plain HTTP, on one address."""

from __future__ import annotations

import socket
from functools import partial

from agentgym.interop.remote.wire import STREAM
from agentgym.tools.env_server.app import make_app
from agentgym.tools.env_server.offer import EnvServing, Offer
from agentgym.tools.env_server.sessions import Sessions
from agentgym.tools.env_server.stream import talk
from agentgym.tools.listening import run_server
from agentgym.tools.serving.limits import ConnectionLimits
from agentgym.tools.serving.streams import Streams


def serve_envs(offer: Offer, serving: EnvServing, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM."""
    sessions = Sessions(offer, serving)
    limits = ConnectionLimits(connections=2 * serving.sessions + 64, body_bytes=serving.request_bytes)
    streams = Streams(STREAM, serving.token, partial(talk, sessions), limits, serving.idle_s)
    run_server(make_app(sessions, offer, serving.token), listening, limits, streams.protocol)
