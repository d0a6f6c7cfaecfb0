"""The search environment, `agentgym train --env search`: 60 steps of a tiny policy in worlds that are new to it."""

from __future__ import annotations

from benchmarks._training import main

if __name__ == "__main__":
    main("train_search", "search", gain_goal=10, doc=__doc__)
