"""GRPO as a plain torch loop: rollouts, credit and one loss, without a trainer.

A tiny model imitates solutions of `guess`, then plays groups of eight attempts at one number. Each sampled token is
weighted with the advantage of its turn within the group. Two minutes: python examples/plain_grpo_loop.py --steps 20
"""

import argparse

import torch

from agentgym import make
from agentgym.core.task import iterate
from agentgym.core.trajectory import Trajectory
from agentgym.rollout import EnvFactory, Group, Limits, RolloutEngine
from agentgym.trainers.chat import ChatCodec
from agentgym.trainers.config import load_config
from agentgym.trainers.credit import Credit, group_numbers
from agentgym.trainers.policies import load_model
from agentgym.trainers.transformers_policy import TransformersPolicy

SMALL = {"warm_start_steps": 200, "warm_start_tasks": 500, "tiny_hidden": 64, "tiny_layers": 2, "tiny_vocabulary": 512}


def loss_of(model: torch.nn.Module, episode: Trajectory, advantages: list[float]) -> torch.Tensor:
    """Return the policy-gradient loss of an episode, on its tokens exactly as they were sampled."""
    tokens = episode.tokens
    weights = torch.zeros(len(tokens.completion_ids))
    for turn, advantage in zip(episode.model_turns, advantages, strict=True):
        weights[slice(*turn.span)] = advantage
    logits = model(torch.tensor([tokens.prompt_ids + tokens.completion_ids])).logits[0, len(tokens.prompt_ids) - 1 : -1]
    logprobs = logits.log_softmax(-1).gather(-1, torch.tensor(tokens.completion_ids)[:, None])[:, 0]
    return -(weights * (logprobs - torch.tensor(tokens.logprobs)).exp()).sum() / tokens.sampled


def main(steps: int) -> None:
    """Train, and print how many episodes of each step were solved."""
    model, tokenizer = load_model(load_config(None, {"env": "guess", **SMALL}))
    codec = ChatCodec(tokenizer)
    policy = TransformersPolicy(model, codec, end_ids=[*codec.end_ids], context=model.config.max_position_embeddings)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    env = make("guess")
    tasks = [task for task in iterate(env.tasks, "train", limit=900) if task.difficulty == 1]
    credit = Credit(scheme=env.scheme)
    with RolloutEngine(EnvFactory("guess", {"dialect": "compact"}), policy, Limits(max_new_tokens=16)) as engine:
        for step in range(1, steps + 1):
            played = engine.collect([Group(task, seed=step, size=8) for task in tasks])
            episodes = [episode for group in played for episode in group.real]
            advantages = credit.advantages(episodes, group_numbers(episodes))
            losses = [loss_of(model, *pair) for pair in zip(episodes, advantages, strict=True)]
            optimizer.zero_grad()
            torch.stack(losses).mean().backward()
            optimizer.step()
            policy.updated(step)  # forget what was computed with the old weights
            print(f"step {step}: {sum(episode.success for episode in episodes)} of {len(episodes)} solved", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    main(parser.parse_args().steps)
