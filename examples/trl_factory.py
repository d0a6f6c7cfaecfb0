"""Train on an environment with TRL's GRPOTrainer: agentgym provides a class with the tools, and the rows of a data set.

    pip install 'agentgym-suite[train]'
    python examples/trl_factory.py Qwen/Qwen3-0.6B --env errand --steps 100

The model must call tools in a form that TRL can read, such as Qwen's. For one of this size, use a GPU.
"""

import argparse

import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from agentgym.interop.trainers.trl import environment_class, rows


def main(model: str, env: str, steps: int, size: int) -> None:
    """Train, and print the mean reward of each step."""
    config = GRPOConfig(
        output_dir="runs/trl",
        max_steps=steps,
        num_generations=size,  # attempts at the same task and seed, which are compared with each other
        per_device_train_batch_size=size,
        max_completion_length=1024,  # of the whole conversation
        max_tool_calling_iterations=8,
        learning_rate=1e-5,
        bf16=torch.cuda.is_available(),
        logging_steps=1,
        save_strategy="no",
        report_to="none",
    )
    trainer = GRPOTrainer(
        model,
        args=config,
        train_dataset=Dataset.from_list(rows(env, split="train", count=max(steps, 100))),
        environment_factory=environment_class(env),
    )
    trainer.train()
    for entry in trainer.state.log_history:
        if "reward" in entry:
            print(f"step {entry['step']}: reward {entry['reward']:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a name on the hub, or a folder")
    parser.add_argument("--env", default="errand")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--size", type=int, default=8, help="attempts at each task")
    arguments = parser.parse_args()
    main(arguments.model, arguments.env, arguments.steps, arguments.size)
