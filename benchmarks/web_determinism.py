"""Same seed, same observations: random episodes of each site, compared byte for byte between two environments.

python -m benchmarks.web_determinism [--episodes 50] [--steps 8]
"""

from __future__ import annotations

import argparse
import sys
from random import Random
from typing import Any

from agentgym.envs.web import WebEnv
from agentgym.messages import text_of
from agentgym.tasks.web.source import SITES
from benchmarks._report import Claim, write

_FIELDS = ("textbox", "searchbox", "spinbutton")
_TEXTS = ("3", "garden", "Ada", "2030-01-09")
_OTHERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("back", {}),
    ("scroll", {"direction": "down"}),
    ("press", {"key": "Tab"}),
    ("look", {"part": 1}),
    ("click", {"ref": "e9999"}),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    rows = [row for site in SITES for row in compare(site, arguments.episodes, arguments.steps)]
    differing = sum(not row["equal"] for row in rows)
    claims = [
        Claim("web_determinism_differing_episodes", differing, "<=", 0),
        Claim("web_determinism_episodes", len(rows), ">=", 50 * len(SITES)),
    ]
    write("web_determinism", rows, claims, packages=("playwright",))


def compare(site: str, episodes: int, steps: int) -> list[dict[str, Any]]:
    """Play the same random episodes in two environments."""
    rows: list[dict[str, Any]] = []
    first, second = WebEnv(sites=[site]), WebEnv(sites=[site])
    try:
        for seed in range(episodes):
            seen, again = play(first, seed, steps), play(second, seed, steps)
            rows.append({"site": site, "seed": seed, "observations": len(seen), "equal": seen == again})
            if seen != again:
                place = next((i for i, pair in enumerate(zip(seen, again, strict=False)) if pair[0] != pair[1]), -1)
                print(f"{site} {seed}: {seen[place]!r}\n{again[place]!r}", file=sys.stderr)
    finally:
        first.close()
        second.close()
    print(f"{site:10} {sum(row['equal'] for row in rows)} of {len(rows)} equal", file=sys.stderr)
    return rows


def play(env: WebEnv, seed: int, steps: int) -> list[str]:
    """Play one episode of random actions; return everything shown."""
    rng, seen = Random(seed), [text_of(env.reset(seed=seed)[0][-1])]
    for _ in range(steps):
        name, values = draw(env, rng)
        step = env.step({"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": values}}]})
        seen.append(f"{name} {values}\n{text_of(step.observation[-1])}")
        if step.terminated or step.truncated:
            break
    return seen


def draw(env: WebEnv, rng: Random) -> tuple[str, dict[str, Any]]:
    """Draw an action, mostly on a visible element."""
    nodes = list(env._view.refs.values()) if env._view is not None else []
    kind = rng.random()
    if not nodes or kind < 0.15:
        return rng.choice(_OTHERS)
    node = rng.choice(nodes)
    if node.role in _FIELDS and kind < 0.9:
        return "type", {"ref": node.ref, "text": rng.choice(_TEXTS)}
    return "click", {"ref": node.ref}


if __name__ == "__main__":
    main()
