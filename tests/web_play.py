"""Playing web environments in tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from random import Random
from typing import Any

from agentgym.core.messages import text_of
from tests.played import call, said


def play_randomly(env: Any, seed: int, steps: int) -> list[str]:
    """Reset with a seed and take random actions; return every observation."""
    rng, texts = Random(seed), [text_of(env.reset(seed=seed)[0][-1])]
    for _ in range(steps):
        name, arguments = draw_action(env, rng)
        step = call(env, name, **arguments)
        texts.append(f"{name} {arguments}\n{said(step)}")
        if step.terminated or step.truncated:
            break
    return texts


def draw_action(env: Any, rng: Random) -> tuple[str, dict[str, Any]]:
    """Draw an action for the current observation, mostly a sensible one."""
    nodes = list(env._view.refs.values())
    kind = rng.random()
    if not nodes or kind < 0.1:
        return rng.choice(
            [("back", {}), ("scroll", {"direction": "down"}), ("press", {"key": "Tab"}), ("look", {"part": 1})]
        )
    node = rng.choice(nodes)
    if node.role in ("textbox", "searchbox", "spinbutton") and kind < 0.9:
        return "type", {"ref": node.ref, "text": rng.choice(["3", "garden", "Ada", "2030-01-09"])}
    return "click", {"ref": node.ref}


def kill_browsers() -> None:
    """Kill every Chromium below this process."""
    parents: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue
            parents[int(entry.name)] = (int(rest.split()[1]), name)
    for pid, (_, name) in parents.items():
        if "(chrom" in name and _is_below(pid, parents):
            os.kill(pid, signal.SIGKILL)


def _is_below(pid: int, parents: dict[int, tuple[int, str]]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid][0]
    return pid == os.getpid()
