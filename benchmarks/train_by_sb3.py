"""Train with a trainer that is neither ours nor one of language models: Stable-Baselines3's PPO on `guess`.

Each number from 1 to 10 is an action; the policy sees the bounds that the answers leave. Three guesses find the number
by chance in three of ten episodes, and by halving in seven.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from benchmarks._guessing import guessing
from benchmarks._report import Claim, write

ENVS, STEPS_PER_UPDATE = 8, 128
LEARNING_RATE, ENTROPY = 2e-3, 0.01
"""With those of Stable-Baselines3 (3e-4, 0.0), a reward of 0.5 takes thirty updates instead of ten."""


def trained(updates: int, seed: int) -> list[float]:
    """Train with PPO and return the mean reward of an episode at each update, the first before any training."""
    from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.callbacks import BaseCallback  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.env_util import make_vec_env  # pyright: ignore[reportMissingImports]

    curve: list[float] = []

    class Curve(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            curve.append(float(np.mean([episode["r"] for episode in self.model.ep_info_buffer])))

    envs = make_vec_env(guessing, n_envs=ENVS, seed=seed)
    model = PPO(
        "MlpPolicy",
        envs,
        learning_rate=LEARNING_RATE,
        ent_coef=ENTROPY,
        n_steps=STEPS_PER_UPDATE,
        batch_size=256,
        seed=seed,
        device="cpu",
        stats_window_size=300,
    )
    model.learn(updates * ENVS * STEPS_PER_UPDATE, callback=Curve())
    envs.close()
    return curve


def main() -> None:
    """Train with several seeds, and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for seed in range(options.seeds):
        started = time.perf_counter()
        curve = trained(options.updates, seed)
        minutes = round((time.perf_counter() - started) / 60, 2)
        rows.append({"seed": seed, "minutes": minutes, "curve": [round(reward, 3) for reward in curve]})
        print(f"seed {seed}: {curve[0]:.2f} to {curve[-1]:.2f} in {minutes} minutes")
    claims = [
        Claim("sb3_reward_at_start_best_seed", max(row["curve"][0] for row in rows), "<=", 0.4),
        Claim("sb3_reward_at_end_worst_seed", min(row["curve"][-1] for row in rows), ">=", 0.6),
    ]
    write("train_by_sb3", rows, claims, packages=("stable-baselines3", "gymnasium", "torch"))


if __name__ == "__main__":
    main()
