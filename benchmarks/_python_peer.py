"""The peers' side of `python_calls_vs_peers`, run by the Python that has `skyrl-gym` and `gem-llm`.

Does not import agentgym. Reads one JSON request from standard input and prints one JSON answer.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata


def skyrl() -> Callable[[str], str]:
    from skyrl_gym.tools.python import PythonCodeExecutorToolGroup  # pyright: ignore[reportMissingImports]

    return PythonCodeExecutorToolGroup().python


def gem() -> Callable[[str], str]:
    from gem.tools.python_code_tool import PythonCodeTool  # pyright: ignore[reportMissingImports]

    tool = PythonCodeTool()
    return lambda code: tool.execute_action(f"<python>{code}</python>")[2]


PEERS = {"skyrl-gym": skyrl, "gem-llm": gem}


def main() -> None:
    request = json.load(sys.stdin)
    call = PEERS[request["peer"]]()
    code, expected = request["code"], request["expected"]

    def timed(_: int) -> float:
        started = time.perf_counter()
        answer = call(code)
        if expected not in answer:
            raise SystemExit(f"{request['peer']} answered {answer!r}")
        return time.perf_counter() - started

    timed(0)
    with ThreadPoolExecutor(request["workers"]) as workers:
        started = time.perf_counter()
        latencies = list(workers.map(timed, range(request["calls"])))
        elapsed = time.perf_counter() - started
    version = metadata.version(request["peer"])
    print(json.dumps({"calls_per_s": request["calls"] / elapsed, "latencies_s": latencies, "version": version}))


if __name__ == "__main__":
    main()
