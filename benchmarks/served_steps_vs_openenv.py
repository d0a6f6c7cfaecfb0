"""Steps per second of a served environment, compared with OpenEnv's WebSocket, for 1 and 8 clients.

Both play the same game: find a hidden number by halving, with a reset for each number. Ours is `agentgym serve env
guess` and `RemoteEnv`, where an action is an assistant message with a tool call; theirs is OpenEnv's server and
synchronous client, where it is a typed action. Every client is its own process. Both servers run all the time, and the
contenders take turns.

The peer needs its own Python environment:

    python -m venv openenv && openenv/bin/pip install openenv==0.10.0
    python -m benchmarks.served_steps_vs_openenv --peer-python openenv/bin/python
"""

from __future__ import annotations

import argparse
import json
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks._report import Claim, median_ratio, write

PEER = ["-m", "benchmarks._openenv_peer"]
CLIENTS = (1, 8)
GOAL = 1.0


@contextmanager
def started(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def our_server(token: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "token"
        file.write_text(token, encoding="utf-8")
        with started([sys.executable, "-m", "agentgym", "serve", "env", "guess", "--token-file", str(file)]) as process:
            assert process.stdout is not None
            yield next(line for line in process.stdout if line.startswith("Listening on ")).split()[-1]


@contextmanager
def their_server(python: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with started([python, *PEER, "serve", str(port)]) as process:
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"


def play(command: Sequence[str], seconds: float, clients: int) -> dict[str, Any]:
    """Let clients play at the same time."""
    players = [
        subprocess.Popen([*command, str(seconds), str(seed)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for seed in range(1, clients + 1)
    ]
    for player in players:
        assert player.stdout is not None
        if player.stdout.readline() != "ready\n":
            raise SystemExit(f"a client could not start: {player.args}")
    for player in players:
        assert player.stdin is not None
        player.stdin.write("go\n")
        player.stdin.flush()
    results = [json.loads(player.communicate()[0]) for player in players]
    waits = sorted(wait for result in results for wait in result["waits"])
    return {
        "steps_per_s": round(sum(result["steps"] / result["seconds"] for result in results), 1),
        "p50_ms": round(statistics.median(waits) * 1e3, 3),
        "p99_ms": round(waits[int(len(waits) * 0.99)] * 1e3, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--peer-python", required=True, help="a Python that has openenv")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0)
    options = parser.parse_args()
    token = secrets.token_urlsafe(24)
    version = subprocess.run([options.peer_python, *PEER, "version"], capture_output=True, text=True, check=True)
    rows: list[dict[str, Any]] = []
    with our_server(token) as ours, their_server(options.peer_python) as theirs:
        contenders = {
            "agentgym": [sys.executable, "-m", "benchmarks._remote_player", ours, token],
            "openenv": [options.peer_python, *PEER, "play", theirs],
        }
        for run in range(options.runs):
            for clients in CLIENTS:
                for name, command in contenders.items():
                    rows.append({"run": run, "name": f"{name} {clients}", **play(command, options.seconds, clients)})
                    print(json.dumps(rows[-1]), file=sys.stderr)
    claims = [
        Claim(
            f"served_steps_vs_openenv_{clients}_client{'s' if clients > 1 else ''}",
            median_ratio(rows, f"agentgym {clients}", f"openenv {clients}"),
            ">=",
            GOAL,
        )
        for clients in CLIENTS
    ]
    packages = ("uvicorn", "websockets")
    write("served_steps_vs_openenv", rows, claims, packages=packages, more_versions={"openenv": version.stdout.strip()})


if __name__ == "__main__":
    main()
