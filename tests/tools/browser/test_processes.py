"""Dead browsers are replaced, and no process is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.tools.browser import BrowserPool, SessionOptions
from tests.browsers import browser_site, look_until_it_fails, need_browser, open_page
from tests.rows import each_row
from tests.waiting import HANG_S, eventually

pytestmark = [pytest.mark.real, pytest.mark.web]


def descendants(pid: int | None = None) -> dict[int, str]:
    """Return the live descendants of a process, with their command lines."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := stat_of(int(entry.name)))[0] != "Z":
            parents[int(entry.name)] = int(fields[1])
    below, waiting = set(), [pid or os.getpid()]
    while waiting:
        waiting = [child for child, parent in parents.items() if parent in waiting]
        below.update(waiting)
    return {child: command(child) for child in below}


def stat_of(pid: int) -> list[str]:
    """Return a process's state, parent and further fields; those of a zombie if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z"]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def browsers(pid: int | None = None) -> list[int]:
    """Return the main Chromium processes below a process."""
    lines = descendants(pid).items()
    return [child for child, line in lines if "--remote-debugging-pipe" in line and "--type=" not in line]


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if stat_of(pid)[0] != "Z" and command(pid)]


def test_a_killed_browser_is_reported_and_replaced():
    with browser_site() as (pool, site):
        before = set(browsers())
        session = open_page((pool, site), "<p>ok</p>")
        for browser in set(browsers()) - before or browsers():
            os.kill(browser, signal.SIGKILL)
        with pytest.raises(InfrastructureError):
            look_until_it_fails(session)
        with open_page((pool, site), "<p>again</p>") as following:
            assert following.view().lines == ("again",)
        session.close()
        assert pool.sessions == 0


def test_a_closed_pool_leaves_no_process():
    before = set(descendants())
    with browser_site() as (pool, site):
        open_page((pool, site), "<p>ok</p>")
        assert set(descendants()) - before
    assert eventually(lambda: not set(descendants()) - before)


def test_sessions_beyond_the_limit_wait():
    with browser_site(max_sessions=1) as (pool, site):
        first = open_page((pool, site), "<p>ok</p>")
        opened: list[str] = []
        thread = threading.Thread(target=lambda: opened.append(open_page((pool, site), "<p>ok</p>").view().title))
        thread.start()
        thread.join(1)
        assert opened == []
        first.close()
        thread.join(HANG_S)
        assert len(opened) == 1


def test_the_error_for_a_missing_browser_names_two_ways_to_get_one(monkeypatch):
    need_browser()
    for name in ("PATH", "HOME"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.delenv("AGENTGYM_CHROMIUM", raising=False)
    with BrowserPool() as pool, pytest.raises(UsageError, match=r"playwright install chromium.*AGENTGYM_CHROMIUM"):
        pool.open(SessionOptions(allowed=("http://a.test",)))


SCRIPT = """
import os, sys, time
from tests.browsers import Site, open_page
from agentgym.tools.browser import BrowserOptions, BrowserPool, SessionOptions
site = Site()
pool = BrowserPool(BrowserOptions(resolve=(("*.test", f"127.0.0.1:{site.port}"),)))
session = open_page((pool, site), "<p>ok</p>")
assert session.view().lines == ("ok",)
if "fork" in sys.argv:
    child = os.fork()
    if child == 0:
        own = pool.open(SessionOptions(allowed=("http://a.test",)))
        own.goto("http://a.test/")
        assert own.view().lines == ("ok",)
        pool.close()
        print("child fine", flush=True)
        time.sleep(float(sys.argv[-1]))
        os._exit(0)
    assert session.view().lines == ("ok",)
print("ready", flush=True)
if "stay" in sys.argv:
    time.sleep(120)
"""


def started(*arguments: str) -> subprocess.Popen[str]:
    need_browser()
    root = str(Path(__file__).parents[3])
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": root},
    )


def wait_for(process: subprocess.Popen[str], *words: str) -> None:
    assert process.stdout is not None
    missing = set(words)
    for line in process.stdout:
        missing.discard(line.strip())
        if not missing:
            return
    pytest.fail(f"the process ended without saying {missing}")


@each_row("words, is_killed", [((), False), (("stay",), True)])
def test_browsers_end_with_their_process(words: tuple[str, ...], is_killed: bool):
    with started(*words) as process:
        wait_for(process, "ready")
        below = list(descendants(process.pid))
        assert below
        if is_killed:
            process.kill()
    assert eventually(lambda: not alive(below))


def test_a_forked_child_has_separate_browsers_and_keeps_none_alive():
    with started("fork", "stay", "90") as process:
        wait_for(process, "ready", "child fine")
        below = descendants(process.pid)
        children = [pid for pid, line in below.items() if line.startswith(sys.executable)]
        process.kill()
    try:
        assert eventually(lambda: alive(list(below)) == children)
    finally:
        for child in alive(children):
            os.kill(child, signal.SIGKILL)
