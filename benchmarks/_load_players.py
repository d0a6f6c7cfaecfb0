"""The honest clients of `serve_load`: threads that play with `RemoteEnv` and compare episodes with local ones.

The first line of the input is an `Order` as JSON. Once every thread has a session, this prints `ready`; when its input
ends, it prints the results as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import agentgym
from agentgym import Env
from agentgym.core.messages import Message, text_of
from agentgym.interop.served.remote_env import RemoteEnv
from agentgym.interop.served.wire import encoded

SEEDS = 120
"""Number of different episodes; they repeat, so that the expected output is computed before the load."""
PER_SESSION = 25
"""Episodes per session. Then a client opens another one."""
TICKS_PER_S = 10_000
"""Waits are counted in bins of 0.1 ms, to use constant memory."""


@dataclass(frozen=True)
class Order:
    """The settings of a process of clients.

    Args:
        url: URL of the server.
        token: Its token.
        sessions: Number of clients, each a thread.
        think_s: Mean seconds between actions, uniform from 0 to twice that.
    """

    url: str
    token: str
    sessions: int
    think_s: float = 0.0


class Player:
    """A policy that halves the range; for some seeds, it writes nonsense first or counts up."""

    def __init__(self, seed: int, observation: list[Message]):
        self._low, self._high = 1, int(text_of(observation[-1]).partition("1 to ")[2].partition(".")[0])
        self._writes_nonsense, self._counts_up = seed % 4 == 1, seed % 4 == 2
        self._middle = 0

    def action(self) -> Any:
        """Return the next action."""
        if self._writes_nonsense:
            self._writes_nonsense = False
            return "Is it five? <tool_call>{"
        self._middle = self._middle + 1 if self._counts_up else (self._low + self._high) // 2
        call = {"type": "function", "function": {"name": "guess", "arguments": {"number": self._middle}}}
        return {"role": "assistant", "content": "", "tool_calls": [call]}

    def hear(self, observation: list[Message]) -> None:
        """Update the range from an answer."""
        answer = text_of(observation[-1])
        if "higher" in answer:
            self._low = self._middle + 1
        elif "lower" in answer:
            self._high = self._middle - 1


def episode(env: Env, seed: int, waits: Counter[int], think_s: float = 0.0) -> list[Any]:
    """Play an episode, count the durations of steps, and return all output of the environment."""
    observation, info = env.reset(seed=seed)
    outputs: list[Any] = [observation, info]
    player, has_ended = Player(seed, observation), False
    while not has_ended:
        time.sleep(random.uniform(0.0, 2 * think_s))
        action, began = player.action(), time.perf_counter()
        result = env.step(action)
        waits[int((time.perf_counter() - began) * TICKS_PER_S)] += 1
        outputs += result
        has_ended = result.terminated or result.truncated
        player.hear(result.observation)
    return outputs


def native() -> list[list[Any]]:
    """Return the environment's output in each episode, played in this process, as JSON data."""
    with closing(agentgym.make("guess")) as env:
        return [json.loads(encoded({"outputs": episode(env, seed, Counter())}))["outputs"] for seed in range(SEEDS)]


class Clients:
    """All clients of this process.

    Args:
        order: The settings.
        expected: The output of each episode.
    """

    def __init__(self, order: Order, expected: list[list[Any]]):
        self._order, self._expected = order, expected
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._waits: Counter[int] = Counter()
        self._counts: Counter[str] = Counter()
        self._problems: Counter[str] = Counter()
        self._ready = threading.Semaphore(0)
        self._threads = [threading.Thread(target=self._play, args=(n,), daemon=True) for n in range(order.sessions)]

    def begin(self, given_up: threading.Event) -> None:
        """Start the clients; return when each has a session, or once `given_up` is set."""
        for thread in self._threads:
            thread.start()
        for _ in self._threads:
            while not self._ready.acquire(timeout=0.5):
                if given_up.is_set():
                    return

    def end(self) -> dict[str, Any]:
        """Let the clients finish their episodes, and return the results."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        return {"waits": self._waits, "problems": self._problems, **self._counts}

    def _play(self, number: int) -> None:
        waits: Counter[int] = Counter()
        counts: Counter[str] = Counter()
        is_first = True
        while not self._stop.is_set():
            try:
                with closing(RemoteEnv(self._order.url, token=self._order.token)) as env:
                    counts["sessions"] += 1
                    if is_first:
                        self._ready.release()
                        is_first = False
                    self._play_session(env, number, waits, counts)
            except Exception as error:  # any error is the server's fault
                counts["failed"] += 1
                self._note(error)
                self._stop.wait(0.5)
        if is_first:
            self._ready.release()
        with self._lock:
            self._waits += waits
            self._counts += counts

    def _play_session(self, env: RemoteEnv, number: int, waits: Counter[int], counts: Counter[str]) -> None:
        for _ in range(PER_SESSION):
            if self._stop.is_set():
                return
            seed = (number * 31 + counts["episodes"]) % SEEDS
            counts["episodes"] += 1
            if episode(env, seed, waits, self._order.think_s) != self._expected[seed]:
                counts["different"] += 1

    def _note(self, error: Exception) -> None:
        with self._lock:
            self._problems[f"{type(error).__name__}: {error}"[:160]] += 1


def main() -> None:
    clients, ended = Clients(Order(**json.loads(sys.stdin.readline())), native()), threading.Event()

    def watch() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    clients.begin(ended)
    if ended.is_set():
        sys.exit("the load ended before all clients had started")
    print("ready", flush=True)
    ended.wait()
    print(json.dumps(clients.end()), flush=True)


if __name__ == "__main__":
    main()
