"""The minimum cost of a MiniWoB++ episode: Playwright alone, nothing isolated, bounded, repeatable or retried.

The page is loaded once and restarts in place for each episode. A step is the action without Playwright's
checks, the page's own reward, and Playwright's accessibility snapshot unless the episode has ended.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

START = "core.EPISODE_MAX_TIME = 1e9; Math.seedrandom(SEED); core.startEpisodeReal(); core.getUtterance()"
STATE = "[WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL]"
VIEWPORT = {"width": 320, "height": 320}


def chosen(page: str, goal: str, snapshot: str) -> Iterator[tuple[str, str | None]]:
    """Yield the solution of a page: an element, and the text to fill in (`None`: click)."""
    if page == "click-test":
        button = ref(snapshot, "button")
    elif page == "click-button":
        button = ref(snapshot, "button", re.findall(r'"(.+)" button', goal)[0])
    else:
        (text,) = re.findall(r'"(.*)"', goal)
        yield ref(snapshot, "textbox"), text
        button = ref(snapshot, "button", "Submit")
    yield button, None


def ref(snapshot: str, role: str, name: str | None = None) -> str:
    called = "" if name is None else f' "{re.escape(name)}"'
    found = re.search(rf"- {role}{called}.*\[ref=(\w+)\]", snapshot)
    if found is None:
        raise SystemExit(f"no {role} {name!r} in:\n{snapshot}")
    return found[1]


def played(page: Any, name: str, hovers: int, seed: int) -> dict[str, Any]:
    began = time.perf_counter()
    goal = page.evaluate(START.replace("SEED", str(seed)))
    snapshot = page.aria_snapshot(mode="ai")
    reset_s = time.perf_counter() - began
    steps, raw = [], 0.0
    for element, text in chosen(name, goal, snapshot):
        target = page.locator(f"aria-ref={element}")
        click = target.click if text is None else lambda target=target, text=text, **how: target.fill(text, **how)
        for act in [target.hover] * hovers + [click]:
            started = time.perf_counter()
            act(force=True)
            done, raw = page.evaluate(STATE)
            if not done:
                page.aria_snapshot(mode="ai")
            steps.append([time.perf_counter() - started, done])
    seconds = time.perf_counter() - began
    return {"reset_s": reset_s, "steps": steps, "seconds": seconds, "reward": float(raw > 0), "failed": 0}


def measure(executable: str, url: str, name: str, hovers: int, episodes: int) -> list[dict[str, Any]]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable)
        page = browser.new_page(viewport=VIEWPORT)  # pyright: ignore[reportArgumentType]
        page.goto(f"{url}{name}.html")
        played(page, name, hovers, 0)
        done = [played(page, name, hovers, 1 + seed) for seed in range(episodes)]
        browser.close()
    return done
