"""Steps per second on pages of MiniWoB++, compared with BrowserGym, with one scripted policy and one Chromium for all.

BrowserGym takes a screenshot, a DOM snapshot and an accessibility tree with every step; ours takes an accessibility
snapshot, and in the setting "with a screenshot" a picture as well, of a window 1.4 times as large as BrowserGym's.
BrowserGym is measured with its defaults (0.1 s with every call, 0.5 s before every observation) and tuned (`slow_mo=0`,
`pre_observation_delay=0`); ours is compared with the tuned one. Playwright alone, with nothing around it, is the bound.

The policy hovers over each element before it acts on it, so that most steps end with an observation: ours takes none
when an episode has ended, BrowserGym does. Only steps that show a page count for the claims. BrowserGym's text of the
accessibility tree is not counted, ours is.

BrowserGym needs a separate Python environment, since it pins an old Playwright:

    python -m venv peers && peers/bin/pip install browsergym-core==0.14.3 browsergym-miniwob==0.14.3
    python -m benchmarks.web_steps_vs_browsergym --peer-python peers/bin/python

It needs no browser of its own: it uses ours (`--executable`, or the one that is found).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentgym import make
from agentgym.env import Env
from agentgym.envs.web.miniwob.env import pages_folder
from agentgym.messages import ToolCall
from agentgym.script import Script
from agentgym.task import Task
from agentgym.tasks.web.sites import SiteServer
from agentgym.tools.browser import find_executable
from benchmarks import _raw_playwright
from benchmarks._peers import ask_peer
from benchmarks._report import Claim, write

PAGES = ("click-test", "enter-text", "click-button")
PLAYWRIGHT_OF_PEER = "chromium-1117/chrome-linux/chrome"
"""The path at which Playwright 1.44 looks for its browser."""
OURS: Mapping[str, Mapping[str, Any]] = {
    "agentgym, text of the whole page": {"observe": "whole"},
    "agentgym, text of what changed": {"observe": "changes"},
    "agentgym, whole page with a screenshot": {"observe": "whole", "screenshots": "plain"},
}
TEXT, _, PICTURED = OURS
TUNED, DEFAULT, RAW = "BrowserGym, tuned", "BrowserGym, default", "Playwright alone"
Episodes = list[dict[str, Any]]


def played(env: Env, task: Task, hovers: int) -> dict[str, Any]:
    """Play an episode as the peers do: hover over what the solution acts on, then act."""
    began = time.perf_counter()
    env.reset(seed=0, options={"task": task})
    reset_s = time.perf_counter() - began
    steps: list[tuple[float, bool]] = []
    failed, outcome = 0, 0.0
    script, seen = Script(env.solution(task)), []
    while isinstance(call := script.next_move(seen), ToolCall):
        hover = ToolCall("hover", {"ref": call.arguments["ref"]})
        for each in [hover] * hovers + [call]:
            action = env.dialect.render("", [each], env.tools)
            started = time.perf_counter()
            result = env.step(action)
            steps.append((time.perf_counter() - started, result.terminated))
            failed += not result.info["rewards"]["valid"]
            outcome = result.info["rewards"]["outcome"]
            seen = result.observation
    seconds = time.perf_counter() - began
    return {"reset_s": reset_s, "steps": steps, "seconds": seconds, "reward": outcome, "failed": failed}


def measure_ours(page: str, kwargs: Mapping[str, Any], options: argparse.Namespace, episodes: int) -> Episodes:
    env = make(f"agentgym/miniwob-{page}-v0", executable=options.executable, max_turns=50, **kwargs)
    try:
        played(env, env.tasks.get("train", 0), options.hovers)
        return [played(env, env.tasks.get("train", 1 + index), options.hovers) for index in range(episodes)]
    finally:
        env.close()


class Peer:
    """BrowserGym, in a separate process for every measurement, with our browser in place of its own."""

    def __init__(self, python: str, executable: str, url: str, folder: Path):
        link = folder / PLAYWRIGHT_OF_PEER
        link.parent.mkdir(parents=True)
        link.symlink_to(executable)
        self._python, self.versions = python, {}
        self._environment = {"PLAYWRIGHT_BROWSERS_PATH": str(folder), "MINIWOB_URL": url}

    def measure(self, page: str, tuned: bool, hovers: int, episodes: int) -> Episodes:
        request = {"page": page, "tuned": tuned, "hovers": hovers, "episodes": episodes}
        answer = ask_peer(
            self._python, "_browsergym_peer.py", request, needs="browsergym-miniwob", environment=self._environment
        )
        self.versions = {f"{name} of the peer": version for name, version in answer["versions"].items()}
        return answer["episodes"]


def row(run: int, page: str, name: str, done: Episodes) -> dict[str, Any]:
    shown = [seconds for episode in done for seconds, ended in episode["steps"] if not ended]
    last = [seconds for episode in done for seconds, ended in episode["steps"] if ended]
    values = {
        "run": run,
        "page": page,
        "name": name,
        "episodes": len(done),
        "reward": round(statistics.mean(episode["reward"] for episode in done), 3),
        "failed_actions": sum(episode["failed"] for episode in done),
        "steps_per_s": round(len(shown) / sum(shown), 2),
        "all_steps_per_s": round(len(shown + last) / sum(shown + last), 2),
        "episodes_per_s": round(len(done) / sum(episode["seconds"] for episode in done), 3),
        "reset_ms": spread([episode["reset_s"] for episode in done]),
        "step_ms": spread(shown),
        "last_step_ms": spread(last),
    }
    print(
        f"run {run + 1}  {page:13} {name:40} {values['steps_per_s']:7.1f} steps/s {values['episodes_per_s']:7.2f} "
        f"episodes/s  reset {values['reset_ms']['median']:7.1f} ms  reward {values['reward']:.2f}",
        file=sys.stderr,
    )
    return values


def spread(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(1000 * value for value in seconds) or [0.0]
    at = [ordered[round(share * (len(ordered) - 1))] for share in (0.1, 0.5, 0.9)]
    return dict(zip(("p10", "median", "p90"), (round(value, 2) for value in at), strict=True))


def play(options: argparse.Namespace) -> tuple[list[dict[str, Any]], dict[str, str]]:
    server = SiteServer.shared()
    server.serve_folder("127.0.0.1", pages_folder())
    url = f"http://127.0.0.1:{server.port}/miniwob/"
    hovers, few, many = options.hovers, options.peer_episodes, options.episodes
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        peer = Peer(options.peer_python, options.executable, url, Path(folder))
        for run in range(options.runs):
            for page in PAGES:
                contenders: dict[str, Callable[[], Episodes]] = {
                    name: partial(measure_ours, page, kwargs, options, many) for name, kwargs in OURS.items()
                }
                contenders[TUNED] = partial(peer.measure, page, True, hovers, few)
                contenders[DEFAULT] = partial(peer.measure, page, False, hovers, few)
                contenders[RAW] = partial(_raw_playwright.measure, options.executable, url, page, hovers, many)
                rows += [row(run, page, name, measure()) for name, measure in contenders.items()]
        return rows, peer.versions


def ratio(rows: Sequence[Mapping[str, Any]], name: str, rate: str = "steps_per_s") -> float:
    """Return our rate divided by tuned BrowserGym's: the median over the runs, on the page where it is lowest."""
    rates = {(r["page"], r["run"], r["name"]): r[rate] for r in rows}
    runs = sorted({run for _, run, _ in rates})
    return min(
        round(statistics.median(rates[page, run, name] / rates[page, run, TUNED] for run in runs), 2) for page in PAGES
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has browsergym-miniwob")
    parser.add_argument("--executable", default=find_executable(), help="the Chromium that all contestants use")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=20, help="episodes per row, ours and plain Playwright's")
    parser.add_argument("--peer-episodes", type=int, default=4, help="episodes per row for BrowserGym")
    parser.add_argument("--hovers", type=int, default=2, help="number of steps that only look, before each action")
    options = parser.parse_args()
    if options.executable is None:
        parser.error("no Chromium was found; name one with --executable")
    if options.hovers < 1:
        parser.error("--hovers must be at least 1: without them some pages show nothing between start and end")
    rows, versions = play(options)
    claims = [
        Claim("web_steps_vs_browsergym", ratio(rows, TEXT), ">=", 5),
        Claim("web_steps_vs_browsergym_with_screenshots", ratio(rows, PICTURED), ">=", 2),
        Claim("web_episodes_vs_browsergym", ratio(rows, TEXT, "episodes_per_s"), ">=", 5),
        Claim("web_episodes_solved", min(r["reward"] for r in rows if r["name"] in OURS), ">=", 1),
    ]
    packages = ("playwright", "miniwob")
    write("web_steps_vs_browsergym", rows, claims, packages=packages, more_versions=versions)


if __name__ == "__main__":
    main()
