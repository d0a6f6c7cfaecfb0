"""Cost of the rollout engine per turn and per episode in flight, and effects of blocking episodes on others.

`turns`: 1, 100 and 10,000 episodes of an idle environment and policy are in flight at once, inline, in threads and in
worker processes. All episodes are reset first and wait; then their turns are timed until the last episode has ended.
Memory is that of the engine's process with all episodes waiting, without worker processes.

`queueing`: 32 episodes that block for half a second each, with limits of 256 concurrent episodes and 1.2 s per step.
The shared pool of an event loop (cores + 4 threads) takes 3 s for them, so most exceed their limit in its queue. In
a second case, 6 of 300 episodes hang: how many others fail, and how long does it take compared to the limit?

    python -m benchmarks.rollout_engine [--runs 3]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from agentgym.core.endings import Reason
from agentgym.core.engine.steps import Solution
from agentgym.core.env import Env
from agentgym.core.messages import Message, ToolCall, assistant
from agentgym.core.policy import ScriptedPolicy, Seat
from agentgym.core.rewards import OUTCOME, Channel, Scheme
from agentgym.core.task import GeneratedTasks, Task
from agentgym.core.toolset import tool
from agentgym.rollout import EnvFactory, Group, Limits, RolloutEngine
from benchmarks._report import Claim, argument_parser, write

MODES = ("inline", "threads", "processes")
HANG_EVERY = 50
TURNS = {1: 4000, 100: 100, 10_000: 5}
"""Turns of each episode, by the number of episodes."""


GO = assistant("", [ToolCall("go", {}, "call_1")])


def _task(split: str, index: int) -> Task:
    return Task(f"idle/{split}/{index}", split, "Go.", gold={})


class Idle(Env):
    """Does nothing for a number of turns.

    Args:
        turns: Turns of an episode.
    """

    channels = {OUTCOME: Channel("1 at the end")}
    scheme = Scheme(weights={OUTCOME: 1.0})
    max_turns = 10**9

    def __init__(self, turns: int = 1, **kwargs: Any):
        super().__init__(**kwargs)
        self._of = turns

    @classmethod
    def default_tasks(cls) -> GeneratedTasks:
        return GeneratedTasks("idle", _task, {"train": None})

    def start(self, task: Task) -> None:
        self._left = self._of

    @tool
    def go(self) -> str:
        """Take a turn."""
        self._left -= 1
        if not self._left:
            self.reward(OUTCOME, 1.0)
            self.finish(Reason.ANSWERED)
        return "ok"

    def solution(self, task: Task) -> Solution:
        for _ in range(self._of):
            yield ToolCall("go")


class Busy(Idle):
    """Blocks in each turn; some tasks hang.

    Args:
        seconds: Seconds per turn.
        hang_every: One of this many tasks hangs; 0 for none.
        hang_s: Seconds per turn of a hanging task.
    """

    def __init__(self, seconds: float, hang_every: int = 0, hang_s: float = 3600.0, **kwargs: Any):
        super().__init__(**kwargs)
        self._seconds, self._hang_every, self._hang_s = seconds, hang_every, hang_s

    @tool
    def go(self) -> str:
        """Take a slow turn."""
        index = int(self.task.id.rpartition("/")[2])
        hangs = self._hang_every and index % self._hang_every == 0
        time.sleep(self._hang_s if hangs else self._seconds)
        return super().go()


class Together:
    """A chat policy whose episodes wait for each other after their resets.

    Args:
        episodes: Number of episodes that wait for each other.
        then: Called when the last one has arrived.
    """

    name = "together"

    def __init__(self, episodes: int, then: Any):
        self._missing, self._then = episodes, then
        self._all_are_here = asyncio.Event()

    def player(self, seat: Seat) -> Together:
        return self

    async def act(self, observation: list[Message]) -> Message:
        if self._missing:
            self._missing -= 1
            if not self._missing:
                self._then()
                self._all_are_here.set()
            await self._all_are_here.wait()
        return GO


def work(episodes: int) -> list[Group]:
    """Return groups of one episode each."""
    source = Idle.default_tasks()
    return [Group(source.get("train", index), index) for index in range(episodes)]


def resident_kb() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def turns(mode: str, episodes: int) -> dict[str, Any]:
    """Time the turns of concurrent episodes."""
    turns_each, start = TURNS[episodes], dict[str, float]()

    def begin() -> None:
        start.update(begun=time.perf_counter(), cpu=time.process_time(), kb=resident_kb())

    factory = EnvFactory("benchmarks.rollout_engine:Idle", {"turns": turns_each})
    groups = work(episodes)
    limits = Limits(max_in_flight=episodes)
    with RolloutEngine(factory, Together(episodes, begin), limits, workers=mode) as engine:
        before, started = resident_kb(), time.perf_counter()
        played = engine.collect(groups)
        seconds, cpu = time.perf_counter() - start["begun"], time.process_time() - start["cpu"]
    assert all(group.trajectories[0].success for group in played)
    return {
        "opening_s": round(start["begun"] - started, 3),
        "us_per_turn": round(seconds / episodes / turns_each * 1e6, 1),
        "cpu_us_per_turn": round(cpu / episodes / turns_each * 1e6, 1),
        "turns_per_s": round(episodes * turns_each / seconds),
        "kb_per_episode": round((start["kb"] - before) / episodes, 1) if episodes > 1 else None,
    }


def queueing(mode: str, case: str) -> dict[str, Any]:
    """Play episodes that block; some hang."""
    if case == "blocking":
        episodes, kwargs, limit_s, ideal_s = 32, {"seconds": 0.5}, 1.2, 0.5
    else:
        episodes, kwargs, limit_s, ideal_s = 300, {"seconds": 0.05, "hang_every": HANG_EVERY}, 2.0, 2.0
    factory = EnvFactory("benchmarks.rollout_engine:Busy", kwargs)
    hanging = {f"idle/train/{index}" for index in range(0, episodes, HANG_EVERY)} if case == "hanging" else set[str]()
    limits = Limits(max_in_flight=256, step_timeout_s=limit_s, retries=0)
    with RolloutEngine(factory, ScriptedPolicy(), limits, workers=mode) as engine:
        if mode == "processes":
            list(engine.play(work(1)[:0]))  # the processes start
        started = time.perf_counter()
        trajectories = [group.trajectories[0] for group in engine.play(work(episodes))]
        seconds = time.perf_counter() - started
    failed = {trajectory.task_id for trajectory in trajectories if trajectory.failed}
    return {
        "episodes": episodes,
        "hanging": len(hanging),
        "innocent_failures": len(failed - hanging),
        "hanging_failures": len(failed & hanging),
        "seconds": round(seconds, 3),
        "ideal_s": ideal_s,
    }


def pool_s() -> float:
    """Return the seconds that 32 blocking calls take in an executor of asyncio's default size."""
    with ThreadPoolExecutor(min(32, (os.cpu_count() or 1) + 4)) as pool:
        started = time.perf_counter()
        list(pool.map(lambda _: time.sleep(0.5), range(32)))
        return time.perf_counter() - started


def in_a_process(what: str, mode: str, of: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "benchmarks.rollout_engine", "--measure", what, mode, of]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    row = {"what": what, "mode": mode, "of": of} | json.loads(done.stdout.splitlines()[-1])
    print(row, file=sys.stderr)
    return row


def median(rows: list[dict[str, Any]], mode: str, of: str, name: str) -> float:
    return statistics.median(row[name] for row in rows if (row["mode"], row["of"]) == (mode, of))


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--measure", nargs=3, metavar=("WHAT", "MODE", "OF"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        what, mode, of = options.measure
        print(json.dumps(turns(mode, int(of)) if what == "turns" else queueing(mode, of)))
        return
    rows: list[dict[str, Any]] = [
        {"run": run} | in_a_process("turns", mode, str(episodes))
        for run in range(options.runs)
        for episodes in TURNS
        for mode in MODES
    ]
    rows += [
        {"run": run} | in_a_process("queueing", mode, case)
        for run in range(options.runs)
        for case in ("blocking", "hanging")
        for mode in ("threads", "processes")
    ]
    rows.append({"what": "queueing", "mode": "shared pool", "of": "blocking", "seconds": round(pool_s(), 3)})
    innocent = sum(row["innocent_failures"] for row in rows if "innocent_failures" in row)
    claims = [
        *(Claim(f"rollout_{mode}_us_per_turn", median(rows, mode, "100", "us_per_turn"), "<=", 500) for mode in MODES),
        *(Claim(f"rollout_{mode}_10000_over_100", over_100(rows, mode), "<=", 3.0) for mode in MODES),
        Claim(
            "rollout_kb_per_idle_episode",
            max(median(rows, mode, "10000", "kb_per_episode") for mode in MODES),
            "<=",
            64,
        ),
        Claim("rollout_innocent_failures", innocent, "<=", 0),
        Claim("rollout_blocking_over_ideal", over_ideal(rows, "blocking"), "<=", 1.5),
        Claim("rollout_hanging_over_ideal", over_ideal(rows, "hanging"), "<=", 1.5),
    ]
    write("rollout_engine", rows, claims)


def over_100(rows: list[dict[str, Any]], mode: str) -> float:
    """Return the CPU time per turn with 10,000 episodes divided by that with 100."""
    return round(median(rows, mode, "10000", "cpu_us_per_turn") / median(rows, mode, "100", "cpu_us_per_turn"), 2)


def over_ideal(rows: list[dict[str, Any]], case: str) -> float:
    modes = ("threads", "processes")
    return round(max(median(rows, mode, case, "seconds") / median(rows, mode, case, "ideal_s") for mode in modes), 2)


if __name__ == "__main__":
    main()
