"""Small HTTP servers for tests, on this machine only."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class QuietHandler(BaseHTTPRequestHandler):
    """A handler without a log that sends whole bodies."""

    def log_message(self, format: str, *args: Any) -> None:
        return

    def send_body(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        with suppress(ConnectionError):  # the client may have left
            self.end_headers()
            self.wfile.write(body)


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler], secure: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve in threads, over TLS if configured; yield the address without a trailing slash."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if secure:
        server.socket = secure.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"{'https' if secure else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
