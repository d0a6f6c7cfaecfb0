"""Time to run one Python program in a container: the pooled agent, compared with Docker's own ways.

Needs a Docker daemon and the image named in AGENTGYM_TEST_IMAGE, as `eval "$(.ci/docker start)"` makes them.

python -m benchmarks.docker_exec --runs 50
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from agentgym.errors import UsageError
from agentgym.tools.sandbox import Sandbox, SandboxSpec, open_sandbox
from agentgym.tools.sandbox.containers.daemon import Daemon
from agentgym.tools.sandbox.containers.hardening import Hardening, host_config
from benchmarks._report import Claim, write

PROGRAM = "print(1 + 1)"
ARGV = ["python3", "-I", "-S", "-c", PROGRAM]
HARD = [
    "--network=none",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--pids-limit=72",
    "--memory=1536m",
    "--memory-swap=1536m",
    "--cpus=1",
    "--read-only",
    "--tmpfs=/work",
    "--tmpfs=/tmp",
    "--user=1000:1000",
    "--init",
    "--log-driver=none",
]
AGENT_CALLS = 20
"""Number of agent calls for each call of a slow way."""


def docker_run(image: str) -> None:
    """The way in which most harnesses start: a container for each program."""
    done = subprocess.run(["docker", "run", "--rm", *HARD, image, *ARGV], capture_output=True, check=True)
    assert done.stdout == b"2\n"


class ExecRun:
    """The next better way: `docker exec` in a running container."""

    def __init__(self, daemon: Daemon, image: str) -> None:
        self._api = daemon.api
        config = self._api.create_host_config(**host_config(Hardening(), SandboxSpec()))
        self._container = self._api.create_container(
            image, ["sleep", "3600"], user="1000:1000", working_dir="/work", host_config=config
        )["Id"]
        self._api.start(self._container)

    def __call__(self) -> None:
        exec_id = self._api.exec_create(self._container, ARGV)["Id"]
        assert self._api.exec_start(exec_id) == b"2\n"
        assert self._api.exec_inspect(exec_id)["ExitCode"] == 0

    def close(self) -> None:
        self._api.remove_container(self._container, force=True)


def agent_call(sandbox: Sandbox) -> None:
    """A new process with the Python code, in the container where the agent waits."""
    result = sandbox.exec(code=PROGRAM)
    assert result.ok
    assert result.stdout == b"2\n"


def timed_ms(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return round((time.perf_counter() - started) * 1000, 3)


def measure(image: str, runs: int) -> list[dict[str, Any]]:
    """Take turns, so that other load on the machine affects all ways alike; one row per call."""
    exec_run = ExecRun(Daemon(), image)
    rows = []
    with open_sandbox(SandboxSpec(image=image), backend="docker") as sandbox:
        session = sandbox.python()
        contenders: dict[str, tuple[Callable[[], Any], int]] = {
            "docker run --rm": (lambda: docker_run(image), 1),
            "docker exec (SDK)": (exec_run, 1),
            "agent": (lambda: agent_call(sandbox), AGENT_CALLS),
            "agent, cell of a session": (lambda: session.run(PROGRAM), AGENT_CALLS),
        }
        for work, _ in contenders.values():
            work()
        for run in range(runs):
            for name, (work, calls) in contenders.items():
                rows += [{"run": run, "name": name, "ms": timed_ms(work)} for _ in range(calls)]
    exec_run.close()
    return rows


def percentile(rows: Sequence[dict[str, Any]], name: str, percent: int) -> float:
    times = sorted(row["ms"] for row in rows if row["name"] == name)
    if percent == 50:
        return statistics.median(times)
    return times[min(len(times) - 1, len(times) * percent // 100)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    options = parser.parse_args()
    image = os.environ.get("AGENTGYM_TEST_IMAGE")
    if not image:
        raise UsageError('AGENTGYM_TEST_IMAGE is not set; run: eval "$(.ci/docker start)"')
    rows = measure(image, options.runs)
    p50 = {name: percentile(rows, name, 50) for name in dict.fromkeys(row["name"] for row in rows)}
    claims = [
        Claim("docker_agent_p50_ms", p50["agent"], "<=", 5.0),
        Claim("docker_agent_p99_ms", percentile(rows, "agent", 99), "<=", 20.0),
        Claim("docker_agent_cell_p50_ms", p50["agent, cell of a session"], "<=", 1.0),
        Claim("docker_run_over_agent", round(p50["docker run --rm"] / p50["agent"], 1), ">=", 30.0),
        Claim("docker_exec_over_agent", round(p50["docker exec (SDK)"] / p50["agent"], 1), ">=", 10.0),
    ]
    version = Daemon().api.version()
    write("docker_exec", rows, claims, packages=["docker"], more_versions={"dockerd": str(version["Version"])})


if __name__ == "__main__":
    main()
