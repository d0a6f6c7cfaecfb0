"""A web family, `agentgym train --env miniwob-enter-date`: 30 steps of a tiny policy in a real browser."""

from __future__ import annotations

from benchmarks._training import main

if __name__ == "__main__":
    main("train_web", "miniwob-enter-date", gain_goal=10, doc=__doc__)
