"""Steps per second on pages of MiniWoB++, compared with BrowserGym, with one scripted policy and one Chromium for both.

BrowserGym takes a screenshot, a DOM snapshot and an accessibility tree with every step; ours takes an accessibility
snapshot, and in the setting "with a screenshot" also a picture, of a window 1.4 times as large as BrowserGym's.
BrowserGym's default delays are disabled (`slow_mo=0`, `pre_observation_delay=0`).

The policy hovers over each element before it acts on it, so that most steps end with an observation: unlike BrowserGym,
ours takes none at the end of an episode. Only steps that show a page count for the claims. Rendering the accessibility
tree as text counts for ours, but not for BrowserGym.

BrowserGym needs a separate Python environment, since it pins an old Playwright:

    python -m venv peers && peers/bin/pip install browsergym-core==0.14.3 browsergym-miniwob==0.14.3
    python -m benchmarks.web_steps_vs_browsergym --peer-python peers/bin/python

It uses our browser (`--executable`, or an installed one).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentgym import make
from agentgym.core.env import Env
from agentgym.core.messages import ToolCall
from agentgym.core.policy import Script
from agentgym.core.task import Task
from agentgym.envs.web.miniwob.env import pages_folder
from agentgym.tasks.web.sites import SiteServer
from agentgym.tools.browser import find_executable
from benchmarks._peers import peer, versions_in
from benchmarks._report import Claim, Contender, argument_parser, in_turns, median_ratio, write

PAGES = ("click-test", "enter-text", "click-button")
PLAYWRIGHT_OF_PEER = "chromium-1117/chrome-linux/chrome"
"""Path of the browser that Playwright 1.44 expects."""
OURS: Mapping[str, Mapping[str, Any]] = {
    "agentgym": {"observe": "whole"},
    "agentgym with a screenshot": {"observe": "whole", "screenshots": "plain"},
}
TEXT, PICTURED = OURS
PEER = "BrowserGym"


def play_episode(env: Env, task: Task, hovers: int) -> dict[str, Any]:
    """Play an episode like the peer: hover over the element of each action, then act."""
    began = time.perf_counter()
    env.reset(seed=0, options={"task": task})
    reset_s = time.perf_counter() - began
    steps: list[tuple[float, bool]] = []
    failed, outcome = 0, 0.0
    script, observation = Script(env.solution(task)), []
    while isinstance(call := script.next_move(observation), ToolCall):
        hover = ToolCall("hover", {"ref": call.arguments["ref"]})
        for move in [hover] * hovers + [call]:
            action = env.dialect.render("", [move], env.tools)
            started = time.perf_counter()
            result = env.step(action)
            steps.append((time.perf_counter() - started, result.terminated))
            failed += not result.info["rewards"]["valid"]
            outcome = result.info["rewards"]["outcome"]
            observation = result.observation
    seconds = time.perf_counter() - began
    return {"reset_s": reset_s, "steps": steps, "seconds": seconds, "reward": outcome, "failed": failed}


def ours(page: str, kwargs: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    env = make(f"agentgym/miniwob-{page}-v0", executable=options.executable, max_turns=50, **kwargs)
    try:
        play_episode(env, env.tasks.get("train", 0), options.hovers)
        tasks = [env.tasks.get("train", 1 + index) for index in range(options.episodes)]
        return rates([play_episode(env, task, options.hovers) for task in tasks])
    finally:
        env.close()


def theirs(page: str, environment: Mapping[str, str], options: argparse.Namespace) -> dict[str, Any]:
    """Measure BrowserGym in a new process."""
    with peer(options.peer_python, "_browsergym_peer", environment) as ask:
        return rates(ask({"page": page, "hovers": options.hovers, "episodes": options.peer_episodes})["episodes"])


def rates(episodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the rates of episodes for their row; only steps that show a page count."""
    step_s = [seconds for episode in episodes for seconds, ended in episode["steps"] if not ended]
    return {
        "episodes": len(episodes),
        "reward": round(statistics.mean(episode["reward"] for episode in episodes), 3),
        "failed_actions": sum(episode["failed"] for episode in episodes),
        "steps_per_s": round(len(step_s) / sum(step_s), 2),
        "episodes_per_s": round(len(episodes) / sum(episode["seconds"] for episode in episodes), 3),
    }


def play(options: argparse.Namespace) -> list[dict[str, Any]]:
    server = SiteServer.shared()
    server.serve_folder("127.0.0.1", pages_folder())
    with tempfile.TemporaryDirectory() as folder:
        link = Path(folder) / PLAYWRIGHT_OF_PEER
        link.parent.mkdir(parents=True)
        link.symlink_to(options.executable)
        url = f"http://127.0.0.1:{server.port}/miniwob/"
        environment = {"PLAYWRIGHT_BROWSERS_PATH": folder, "MINIWOB_URL": url}
        contenders: list[Contender] = []
        for page in PAGES:
            for name, kwargs in OURS.items():
                contenders.append(({"page": page, "name": name}, partial(ours, page, kwargs, options)))
            contenders.append(({"page": page, "name": PEER}, partial(theirs, page, environment, options)))
        return list(in_turns(range(options.runs), contenders))


def ratio(rows: Sequence[Mapping[str, Any]], name: str, rate: str) -> float:
    """Return our rate divided by BrowserGym's, on the page where the ratio is lowest."""
    return min(median_ratio(rows, name, PEER, rate, page=page) for page in PAGES)


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--peer-python", default=sys.executable, help="a Python that has browsergym-miniwob")
    parser.add_argument("--executable", default=find_executable(), help="the Chromium that both use")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--episodes", type=int, default=20, help="episodes per row, ours")
    parser.add_argument("--peer-episodes", type=int, default=4, help="episodes per row for BrowserGym")
    parser.add_argument("--hovers", type=int, default=2, help="number of steps that only look, before each action")
    options = parser.parse_args()
    if options.executable is None:
        parser.error("no Chromium was found; name one with --executable")
    if options.hovers < 1:
        parser.error("--hovers must be at least 1: without them some pages show nothing between start and end")
    rows = play(options)
    claims = [
        Claim("web_steps_vs_browsergym", ratio(rows, TEXT, "steps_per_s"), ">=", 5),
        Claim("web_steps_vs_browsergym_with_screenshots", ratio(rows, PICTURED, "steps_per_s"), ">=", 2),
        Claim("web_episodes_vs_browsergym", ratio(rows, TEXT, "episodes_per_s"), ">=", 5),
        Claim("web_episodes_solved", min(row["reward"] for row in rows if row["name"] in OURS), ">=", 1),
    ]
    versions = versions_in(options.peer_python, "browsergym-miniwob", "playwright")
    theirs = {f"{package} of the peer": version for package, version in versions.items()}
    write("web_steps_vs_browsergym", rows, claims, packages=("playwright", "miniwob"), more_versions=theirs)


if __name__ == "__main__":
    main()
