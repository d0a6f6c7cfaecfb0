"""A server of environments with 100 playing sessions and many misbehaving clients, for some minutes.

The honest clients are threads of a few processes. Each plays episodes with `RemoteEnv`, session after session, compares
all output with the same episode played in its own process, and pauses between steps like a model. Meanwhile, other
clients disconnect in the middle of a body, a message or a reply, are killed, send malformed or oversized data, use a
wrong token, send single bytes, do not read their replies, and abandon sessions, which the server closes when idle.

The server's memory after the load is compared with that after a first, short load, since memory kept after first use is
not a leak.

    python -m benchmarks.serve_load
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks._load_players import TICKS_PER_S, Order
from benchmarks._report import Claim, write

SPARE_SESSIONS = 100
"""Additional sessions for clients that abandon them."""
MOST_MB = 1024
"""Maximum memory of the server; beyond it, the load ends early."""
PATIENCE_S = 60
"""Seconds for the server to become idle, in addition to the idle time of a session."""
SAMPLE_S = 0.5


@dataclass(frozen=True)
class Load:
    """The amount of load and its duration.

    Args:
        sessions: Honest sessions at a time.
        processes: Processes of honest clients.
        minutes: Duration of the load.
        think_s: Mean seconds between the steps of a session.
        warm_s: Seconds of the first load, the baseline for memory.
        idle_s: Seconds after which the server closes an idle session.
    """

    sessions: int = 100
    processes: int = 2
    minutes: float = 3.0
    think_s: float = 0.5
    warm_s: float = 60.0
    idle_s: float = 20.0


@dataclass(frozen=True)
class Usage:
    """Resources of the server's process."""

    memory_mb: float
    threads: int
    files: int

    @classmethod
    def of(cls, pid: int) -> Usage:
        """Read the usage from `/proc`."""
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        status = dict(line.split(":", 1) for line in lines)
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return cls(round(int(status["VmRSS"].split()[0]) / 1024, 1), int(status["Threads"]), files)


class LoadedServer:
    """A server in its own process.

    Args:
        process: The process.
        url: Its URL.
        token: Its token.
        complaints: The file with its standard error.
    """

    def __init__(self, process: subprocess.Popen[str], url: str, token: str, complaints: Path):
        self.process, self.url, self.token, self._complaints = process, url, token, complaints

    def usage(self) -> Usage:
        """Return the resources of its process."""
        return Usage.of(self.process.pid)

    def complaints(self) -> list[str]:
        """Return the lines of its standard error, which should be empty."""
        return self._complaints.read_text(encoding="utf-8", errors="replace").splitlines()

    def counts(self) -> dict[str, float]:
        """Return its metrics."""
        with closing(HTTPConnection(urlsplit(self.url).netloc, timeout=60)) as connection:
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {self.token}"})
            answer = connection.getresponse()
            text = answer.read().decode()
        if answer.status != 200:
            raise SystemExit(f"the server answers {answer.status} when asked for its metrics: {text[:500]}")
        pairs = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("agentgym_")]
        return {name: float(value) for name, value in pairs}

    def at_rest(self, patience_s: float, like: Usage | None = None) -> Usage:
        """Wait until no session is open and at most the threads and files of `like` are in use; return the usage."""
        until, now = time.monotonic() + patience_s, self.usage()
        while time.monotonic() < until:
            time.sleep(SAMPLE_S)  # until the last connection for metrics has ended
            now = self.usage()
            is_like = like is None or (now.threads <= like.threads and now.files <= like.files)
            if is_like and not self.counts()["agentgym_sessions"]:
                break
        return now


@contextmanager
def server_of(load: Load) -> Iterator[LoadedServer]:
    token = secrets.token_urlsafe(24)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "token"
        file.write_text(token, encoding="utf-8")
        file.chmod(0o600)
        limits = ["--sessions", str(load.sessions + SPARE_SESSIONS), "--idle-s", str(load.idle_s)]
        command = [sys.executable, "-m", "agentgym", "serve", "env", "guess", "--token-file", str(file), *limits]
        complaints = Path(folder) / "complaints"
        with complaints.open("w", encoding="utf-8") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            assert process.stdout is not None
            url = next(line for line in process.stdout if line.startswith("Listening on ")).split()[-1]
            yield LoadedServer(process, url, token, complaints)
        finally:
            process.terminate()
            process.communicate(timeout=30)


class Crew:
    """A process of clients, which ends with its input."""

    def __init__(self, module: str, order: Order):
        command = [sys.executable, "-m", f"benchmarks.{module}"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(order)) + "\n")
        self._process.stdin.flush()

    def wait_until_ready(self) -> None:
        """Return when all its clients have started."""
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise SystemExit("clients could not start")

    def results(self) -> dict[str, Any]:
        """Let it end, and return its results."""
        return json.loads(self._process.communicate(timeout=300)[0])

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


def under_load(server: LoadedServer, load: Load, seconds: float) -> dict[str, Any]:
    """Load the server; return the results of its clients and its peak usage."""
    shares = [load.sessions // load.processes + (n < load.sessions % load.processes) for n in range(load.processes)]
    with ExitStack() as stack:
        orders = [Order(server.url, server.token, share, load.think_s) for share in shares]
        players = [stack.enter_context(Crew("_load_players", order)) for order in orders]
        for crew in players:
            crew.wait_until_ready()
        trouble = stack.enter_context(Crew("_load_trouble", Order(server.url, server.token, 0)))
        trouble.wait_until_ready()
        began, before = time.monotonic(), server.counts()
        sampled = sampled_for(server, seconds)
        spent, after = time.monotonic() - began, server.counts()
        # Troublemakers stay until the last honest episode has ended.
        results = [crew.results() for crew in players]
        answers = trouble.results()
    steps = 'agentgym_requests_total{op="step",outcome="ok"}'
    return {
        "seconds": round(spent, 1),
        "steps_per_s": round((after[steps] - before.get(steps, 0)) / spent, 1),
        "sessions_most": max(count for count, _ in sampled),
        "sessions_median": sorted(count for count, _ in sampled)[len(sampled) // 2],
        "peak": asdict(Usage(*(max(values) for values in zip(*(asdict(u).values() for _, u in sampled), strict=True)))),
        "honest": summed(results),
        "troublemakers": dict(sorted(answers.items())),
        "server_counts": after,
    }


def sampled_for(server: LoadedServer, seconds: float) -> list[tuple[float, Usage]]:
    """Sample the server's usage; stop early if it uses too much memory."""
    samples: list[tuple[float, Usage]] = []
    until = time.monotonic() + seconds
    printed_at = time.monotonic()
    while True:
        samples.append((server.counts()["agentgym_sessions"], server.usage()))
        now = time.monotonic()
        if now >= until or samples[-1][1].memory_mb > MOST_MB:
            return samples
        if now - printed_at > 60:
            printed_at = now
            print(f"{until - now:.0f} s left: {samples[-1]}", file=sys.stderr, flush=True)
        time.sleep(min(SAMPLE_S, until - now))


def summed(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the summed results of all honest clients."""
    waits: Counter[int] = Counter()
    problems: Counter[str] = Counter()
    for result in results:
        waits.update({int(tick): count for tick, count in result["waits"].items()})
        problems.update(result["problems"])
    counts = {
        name: sum(result.get(name, 0) for result in results) for name in ("sessions", "episodes", "failed", "different")
    }
    shares = {f"p{share}_ms": waited_ms(waits, share / 100) for share in (50, 99)}
    return {**counts, "steps": waits.total(), **shares, "problems": dict(problems.most_common(10))}


def waited_ms(waits: Counter[int], share: float) -> float:
    """Return the quantile of the step times at `share`, in ms."""
    remaining = share * waits.total()
    for tick in sorted(waits):
        remaining -= waits[tick]
        if remaining <= 0:
            break
    else:
        return 0.0
    return round((tick + 1) / TICKS_PER_S * 1e3, 1)


def measure(load: Load) -> dict[str, Any]:
    """Load a server twice, and return the row of the result."""
    with server_of(load) as server:
        server.counts()
        start = server.at_rest(PATIENCE_S)
        warm = under_load(server, load, load.warm_s)
        patience_s = load.idle_s + PATIENCE_S
        rested = server.at_rest(patience_s, start)
        row = under_load(server, load, 60 * load.minutes)
        after = server.at_rest(patience_s, start)
        usage = {"at_start": asdict(start), "after_warm_up": asdict(rested), "after": asdict(after)}
        complaints = server.complaints()
        print("\n".join(complaints[-30:]), file=sys.stderr)
        leftovers = {"sessions_left": server.counts()["agentgym_sessions"], "complaints": len(complaints)}
        ways = {name: warm["honest"][name] for name in ("episodes", "failed", "different", "problems")}
        return {"name": "guess", **asdict(load), **row, **usage, **leftovers, "warm_up": ways}


def claims_of(row: Mapping[str, Any]) -> list[Claim]:
    failures = sum(number for answer, number in row["troublemakers"].items() if answer.endswith(": 500"))
    honest, start, rested, after = row["honest"], row["at_start"], row["after_warm_up"], row["after"]
    return [
        Claim("served_load_minutes", round(row["seconds"] / 60, 2), ">=", 3),
        Claim("served_load_sessions", row["sessions"], ">=", 100),
        Claim("served_load_failed_episodes", honest["failed"] + row["warm_up"]["failed"], "<=", 0),
        Claim("served_load_different_episodes", honest["different"] + row["warm_up"]["different"], "<=", 0),
        Claim("served_load_memory_peak_mb", row["peak"]["memory_mb"], "<=", MOST_MB),
        Claim("served_load_memory_after", round(after["memory_mb"] / rested["memory_mb"], 3), "<=", 1.1),
        Claim("served_load_threads_left", after["threads"] - start["threads"], "<=", 0),
        Claim("served_load_files_left", after["files"] - start["files"], "<=", 0),
        Claim("served_load_sessions_left", row["sessions_left"], "<=", 0),
        Claim("served_load_answers_that_the_server_failed", failures, "<=", 0),
        Claim("served_load_lines_of_complaint", row["complaints"], "<=", 0),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in asdict(Load()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    load = Load(**vars(parser.parse_args()))
    row = measure(load)
    write("serve_load", [row], claims_of(row), packages=("uvicorn", "websockets", "fastapi", "h11"))


if __name__ == "__main__":
    main()
