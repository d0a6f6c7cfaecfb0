"""Opening 10,000 trajectories in a browser: `agentgym view` beside Inspect's viewer, with the same episodes.

    python -m venv inspect && inspect/bin/pip install inspect-ai==0.3.285
    python -m benchmarks.view_vs_inspect --inspect-python inspect/bin/python

The episodes are those of SQL tasks, played by the solution and copied under other ids, and one of 200 turns. Both
viewers are served on this machine. In each run, each is started anew and opened in a browser of its own, by turns.
Measured are the time from the command to the first rows, from the address to the first rows once the server runs, from
a click to the messages of an episode, the memory of the page, and the frames while it scrolls; in a second pass, the
processor time that the page takes for the busiest of them in the long episode. Ours is started twice:
without an index beside the file, and with the one that the first start has written.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from agentgym.messages import text_of
from agentgym.policy import ScriptedPolicy
from agentgym.rollout import EnvFactory, Group, RolloutEngine
from agentgym.task import iterate
from agentgym.timing import TurnTimes
from agentgym.trajectory import Trajectory, write_jsonl
from benchmarks._report import Claim, write

PLAYED = 60
LONG_TURNS = 200
LONG_CHARS = 2000
"""Characters of each result in the long episode: about 100,000 tokens in all."""
PATIENCE_MS = 120_000
SLOW_FRAME_MS = 50.0


@dataclass(frozen=True)
class Viewer:
    """A viewer, and where things are in its page."""

    name: str
    command: tuple[str, ...]
    list_path: str
    """Address of the list, after the server's."""
    rows: str
    """Selects the rows of the list, or links in them."""
    long_path: str
    """Address of the long episode."""


def episodes(count: int) -> Iterator[Trajectory]:
    """Yield the long episode, then many short ones."""
    played = _played()
    yield _long(played[0])
    for number in range(count - 1):
        one = played[number % len(played)]
        task = f"sql/test/{number // 4}"
        yield replace(one, id=f"{task}#{number % 4}", task_id=task, attempt=number % 4)


def _played() -> list[Trajectory]:
    factory = EnvFactory("agentgym/sql-v0", {})
    env = factory()
    groups = [Group(task, seed) for seed, task in enumerate(iterate(env.tasks, "test", PLAYED))]
    env.close()
    with RolloutEngine(factory, ScriptedPolicy()) as engine:
        return [group.trajectories[0] for group in engine.collect(groups)]


def _long(one: Trajectory) -> Trajectory:
    """Return an episode of many turns with long results."""
    first = one.turns[0]
    words = "".join(f"line {number}: the quick brown fox jumps over the lazy dog\n" for number in range(60))
    turns = []
    for number in range(LONG_TURNS):
        observation = [{**message, "content": f"{number} {words}"[:LONG_CHARS]} for message in first.observation]
        times = TurnTimes(number * 1.0, 0.8, 0.2)
        turns.append(replace(first, observation=observation, span=None, times=times))
    return replace(one, id="long/test/0#0", task_id="long/test/0", attempt=0, turns=turns, seconds=float(LONG_TURNS))


@contextmanager
def served(viewer: Viewer) -> Iterator[tuple[str, float]]:
    """Start a viewer; yield its address and when its command began."""
    began = time.perf_counter()
    with subprocess.Popen(viewer.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        try:
            seen = ""
            while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", seen)):
                seen += (line := server.stdout.readline())
                if not line:
                    sys.exit(f"{viewer.name} ended: {seen}")
            yield f"{found[0]}/", began
        finally:
            server.terminate()


def measure(viewer: Viewer, prompt: str) -> dict[str, Any]:
    """Open a viewer in a browser of its own, once."""
    from playwright.sync_api import sync_playwright

    from agentgym.tools.browser.launching import choose_executables

    with served(viewer) as (url, began), sync_playwright() as playwright:
        before = {one.pid for one in psutil.Process().children(recursive=True)}
        browser = playwright.chromium.launch(executable_path=choose_executables()[0], chromium_sandbox=False)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(PATIENCE_MS)
        _open(page, url + viewer.list_path, viewer.rows)
        from_command = time.perf_counter() - began
        page.close()
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        asked = time.perf_counter()
        _open(page, url + viewer.list_path, viewer.rows)
        listed = time.perf_counter() - asked
        page.wait_for_timeout(1000)
        in_list = page.evaluate(SCROLL)
        memory = _renderer_mb(before)
        page.evaluate("window.scrollTo(0, 0)")
        asked = time.perf_counter()
        page.locator(viewer.rows).nth(4).click()
        page.get_by_text(prompt).last.wait_for()
        opened = time.perf_counter() - asked
        page.goto("about:blank")
        asked = time.perf_counter()
        page.goto(url + viewer.long_path)
        page.get_by_text(prompt).last.wait_for()
        long = time.perf_counter() - asked
        page.wait_for_timeout(1000)
        in_long = page.evaluate(SCROLL)
        page.evaluate("for (const e of document.querySelectorAll('*')) e.scrollTop = 0")
        browser.start_tracing(page=page, categories=["blink", "toplevel"])
        page.evaluate(SCROLL)
        in_long["busiest_cpu_ms"] = _busiest_cpu_ms(json.loads(browser.stop_tracing()))
        result = {
            "name": viewer.name,
            "command_to_list_s": round(from_command, 3),
            "list_s": round(listed, 3),
            "click_to_messages_s": round(opened, 3),
            "long_episode_s": round(long, 3),
            "page_mb_in_list": memory,
            "page_mb_in_long_episode": _renderer_mb(before),
            "list_frames": in_list,
            "long_episode_frames": in_long,
        }
        browser.close()
    return result


def _busiest_cpu_ms(trace: dict[str, Any]) -> float:
    """Return the processor time of the page's main thread in the busiest frame of a trace.

    A slow frame of a page that does little in it is one for which the machine had no time.
    """
    events = [event for event in trace["traceEvents"] if event.get("ph") == "X"]
    drawn = [event for event in events if event["name"] == "FrameRequestCallbackCollection::ExecuteFrameCallbacks"]
    frames = [event["ts"] for event in sorted(drawn, key=lambda event: event["ts"])]
    spent = [0.0] * (len(frames) + 1)
    for event in events:
        if event["name"] == "ThreadControllerImpl::RunTask" and event["tid"] == drawn[0]["tid"]:
            spent[bisect(frames, event["ts"])] += event.get("tdur", 0) / 1000
    return round(max(spent[1:-1], default=0.0), 1)  # what finds the part to scroll comes before the first one


def _open(page: Any, url: str, rows: str) -> None:
    page.goto(url)
    page.locator(rows).first.wait_for()


def _renderer_mb(before: set[int]) -> float:
    """Return the private memory of the pages of the browser that was started since, in MB."""
    new = [one for one in psutil.Process().children(recursive=True) if one.pid not in before]
    pages = [one for one in new if any("--type=renderer" in part for part in one.cmdline())]
    return round(max((one.memory_full_info().uss for one in pages), default=0) / 1e6, 1)


SCROLL = """async () => {
  const room = (e) => e.scrollHeight - e.clientHeight;
  const scrolls = (e) => e === document.scrollingElement || /auto|scroll/.test(getComputedStyle(e).overflowY);
  const box = [...document.querySelectorAll('*')].filter(scrolls).sort((a, b) => room(b) - room(a))[0];
  const frames = [];
  await new Promise((done) => {
    let last = performance.now();
    const step = (now) => {
      frames.push(now - last);
      last = now;
      const at = box.scrollTop;
      box.scrollTop += 150;
      if (frames.length < 600 && (box.scrollTop > at || frames.length < 5)) requestAnimationFrame(step);
      else done();
    };
    requestAnimationFrame(step);
  });
  const sorted = frames.slice(1).sort((a, b) => a - b);
  const slow = sorted.filter((one) => one > 50).length;
  return { frames: sorted.length, slow, worst_ms: Math.round(sorted.at(-1) ?? 0) };
}"""


def viewers(folder: Path, count: int, python: str | None) -> tuple[list[Viewer], str]:
    """Write the episodes and return the viewers, and Inspect's version."""
    file = folder / "episodes.jsonl"
    write_jsonl(file, episodes(count))
    ours = Viewer(
        "agentgym",
        (sys.executable, "-m", "agentgym", "view", str(file)),
        "",
        "table.rows tbody a",
        "#/t/0.0",
    )
    if python is None:
        return [ours], ""
    logs = folder / "logs"
    logs.mkdir()
    script = Path(__file__).with_name("_inspect_log.py")
    made = subprocess.run([python, script, file, logs / "episodes.eval"], check=True, stdout=subprocess.PIPE, text=True)
    sample = "#/logs/episodes.eval/samples/sample/"
    theirs = Viewer(
        "inspect",
        (str(Path(python).with_name("inspect")), "view", "start", "--log-dir", str(logs), "--port", "7597"),
        "#/logs/episodes.eval",
        "a[role=row][href*='/samples/sample/']",
        f"{sample}long%2Ftest%2F0/1/messages",
    )
    return [ours, theirs], made.stdout.strip().splitlines()[-1]


def run(folder: Path, options: argparse.Namespace) -> tuple[list[dict[str, Any]], str]:
    found, version = viewers(folder, options.count, options.inspect_python)
    file = folder / "episodes.jsonl"
    rows: list[dict[str, Any]] = []
    prompt = _prompt_of(file)
    for number, viewer in itertools.product(range(options.runs), found):
        if viewer.name == "agentgym":
            file.with_name(f"{file.name}.index").unlink(missing_ok=True)
            rows.append({"run": number, **measure(viewer, prompt), "name": "agentgym, first time"})
        rows.append({"run": number, **measure(viewer, prompt)})
        print(json.dumps(rows[-1]), file=sys.stderr)
    return rows, version


def _prompt_of(file: Path) -> str:
    """Return a text that all of the episodes show in their messages."""
    with file.open(encoding="utf-8") as lines:
        opening = json.loads(next(lines))["opening"]
    return text_of(opening[0]).split("\n")[0][:60]


def summed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the median and the extremes of each number, by viewer."""
    found = []
    for name in dict.fromkeys(row["name"] for row in rows):
        mine = [row for row in rows if row["name"] == name]
        row: dict[str, Any] = {"name": f"{name}: median, least, most", "runs": len(mine)}
        for key in ("command_to_list_s", "list_s", "click_to_messages_s", "long_episode_s", "page_mb_in_list"):
            values = [one[key] for one in mine]
            row[key] = [round(statistics.median(values), 3), min(values), max(values)]
        for key in ("list_frames", "long_episode_frames"):
            row[key] = {part: statistics.median(one[key][part] for one in mine) for part in mine[0][key]}
        found.append(row)
    return found


def claims(rows: list[dict[str, Any]]) -> list[Claim]:
    def median(name: str, key: str, part: str | None = None) -> float:
        values = [row[key] if part is None else row[key][part] for row in rows if row["name"] == name]
        return statistics.median(values)

    ours = "agentgym"
    found = [
        Claim("page_mb_in_list", median(ours, "page_mb_in_list"), "<=", 2000),
        Claim("frames_over_50_ms_in_list", median(ours, "list_frames", "slow"), "<=", 0),
        Claim("frames_over_50_ms_in_long_episode", median(ours, "long_episode_frames", "slow"), "<=", 0),
    ]
    if any(row["name"] == "inspect" for row in rows):
        for key in ("command_to_list_s", "list_s", "click_to_messages_s", "long_episode_s", "page_mb_in_list"):
            ratio = round(median(ours, key) / median("inspect", key), 3)
            found.append(Claim(f"{key}_by_inspects", ratio, "<=", 1))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inspect-python", help="a Python that has inspect-ai")
    parser.add_argument("--count", type=int, default=10_000, help="episodes")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows, version = run(Path(folder), options)
    write("view_vs_inspect", [*summed(rows), *rows], claims(rows), more_versions={"inspect-ai": version})


if __name__ == "__main__":
    main()
