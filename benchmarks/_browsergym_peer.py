"""The peer's side of `web_steps_vs_browsergym`, run by the Python that has `browsergym-miniwob`.

Does not import agentgym. The policy reads the same text as an agent: the goal and BrowserGym's rendering of the
accessibility tree, which is not timed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

from benchmarks._peers import answer


def bid(tree: str, role: str, name: str | None = None) -> str:
    """Return the id of an element in the text of an accessibility tree."""
    for element, kind, label in re.findall(r"^\s*\[(\w+)\] (\w+) '([^']*)'", tree, re.MULTILINE):
        if kind == role and name in (None, label):
            return element
    raise SystemExit(f"no {role} {name!r} in:\n{tree}")


def solution(page: str, goal: str, tree: str) -> Iterator[tuple[str, str]]:
    """Yield the solution of a page: the element to act on, and the action."""
    if page == "click-test":
        button = bid(tree, "button")
    elif page == "click-button":
        button = bid(tree, "button", re.findall(r'"(.+)" button', goal)[0])
    else:
        field, button = bid(tree, "textbox"), bid(tree, "button", "Submit")
        (text,) = re.findall(r'"(.*)"', goal)
        yield field, f"fill({field!r}, {text!r})"
    yield button, f"click('{button}')"


def play_episode(env: Any, request: dict[str, Any], seed: int) -> dict[str, Any]:
    from browsergym.utils.obs import flatten_axtree_to_str  # pyright: ignore[reportMissingImports]

    began = time.perf_counter()
    observation, _ = env.reset(seed=seed)
    reset_s = time.perf_counter() - began
    steps, failed, ended, reward = [], 0, False, 0.0
    tree = flatten_axtree_to_str(observation["axtree_object"])
    for element, act in solution(request["page"], observation["goal"], tree):
        for action in [f"hover('{element}')"] * request["hovers"] + [act]:
            started = time.perf_counter()
            observation, reward, ended, _, _ = env.step(action)
            steps.append([time.perf_counter() - started, ended])
            failed += bool(observation["last_action_error"])
    seconds = time.perf_counter() - began
    return {"reset_s": reset_s, "steps": steps, "seconds": seconds, "reward": reward, "failed": failed}


def measure(request: dict[str, Any]) -> dict[str, Any]:
    import browsergym.miniwob  # noqa: F401  # pyright: ignore[reportMissingImports]
    import gymnasium

    env = gymnasium.make(f"browsergym/miniwob.{request['page']}", slow_mo=0, pre_observation_delay=0.0)
    play_episode(env, request, 0)
    episodes = [play_episode(env, request, 1 + seed) for seed in range(request["episodes"])]
    env.close()
    return {"episodes": episodes}


if __name__ == "__main__":
    answer(measure)
