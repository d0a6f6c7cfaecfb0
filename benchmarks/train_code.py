"""The code environment, `agentgym train --env code`: 30 steps of a tiny policy with gated rewards, and the gain."""

from __future__ import annotations

from benchmarks._training import main

if __name__ == "__main__":
    main("train_code", "code", gain_goal=10, doc=__doc__)
