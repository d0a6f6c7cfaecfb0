"""Train with RLlib's PPO on the game of `train_by_sb3`: guesses are actions; the bounds that answers leave are seen."""

from __future__ import annotations

import argparse
import time

import torch

from benchmarks._guessing import guessing
from benchmarks._report import Claim, write

ENVS, STEPS_PER_ITERATION = 8, 1024


def trained(iterations: int, seed: int) -> list[float]:
    """Train in this process and return the mean reward of an episode at each iteration."""
    from ray.rllib.algorithms.ppo import PPOConfig  # pyright: ignore[reportMissingImports]
    from ray.tune.registry import register_env  # pyright: ignore[reportMissingImports]

    register_env("guessing", lambda _: guessing())
    config = (
        PPOConfig()
        .environment("guessing")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=ENVS)
        .training(lr=2e-3, entropy_coeff=0.01, train_batch_size=STEPS_PER_ITERATION, minibatch_size=256, num_epochs=10)
        .debugging(seed=seed, log_level="ERROR")
    )
    algorithm = config.build_algo()
    curve = [float(algorithm.train()["env_runners"]["episode_return_mean"]) for _ in range(iterations)]
    algorithm.stop()
    return curve


def main() -> None:
    """Train with several seeds, and write the result file."""
    import ray  # pyright: ignore[reportMissingImports]

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    rows = []
    for seed in range(options.seeds):
        started = time.perf_counter()
        curve = trained(options.iterations, seed)
        minutes = round((time.perf_counter() - started) / 60, 2)
        rows.append({"seed": seed, "minutes": minutes, "curve": [round(reward, 3) for reward in curve]})
        print(f"seed {seed}: {curve[0]:.2f} to {curve[-1]:.2f} in {minutes} minutes", flush=True)
    ray.shutdown()
    claims = [
        Claim("rllib_reward_at_start_best_seed", max(row["curve"][0] for row in rows), "<=", 0.4),
        Claim("rllib_reward_at_end_worst_seed", min(row["curve"][-1] for row in rows), ">=", 0.6),
    ]
    write("train_by_rllib", rows, claims, packages=("ray", "gymnasium", "torch"))


if __name__ == "__main__":
    main()
