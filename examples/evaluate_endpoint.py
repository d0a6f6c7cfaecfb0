"""Evaluate a model behind an OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp or a provider.

    pip install 'agentgym-suite[endpoint]'
    export OPENAI_API_KEY=...    # if the server wants one
    python examples/evaluate_endpoint.py http://localhost:8000/v1 my-model --env sql --tasks 25 --out sql.jsonl

Run it again to continue: finished episodes are read from the file. `agentgym view sql.jsonl` shows them.
"""

import argparse
from pathlib import Path

from agentgym import make
from agentgym.core.task import iterate
from agentgym.eval.evaluation import evaluate, print_summary
from agentgym.rollout import EnvFactory
from agentgym.trainers.endpoint import EndpointPolicy, EndpointSettings


def main(url: str, model: str, env_id: str, count: int, attempts: int, out: Path | None) -> None:
    """Play tasks of the split `test` and print success with its interval, turns, tokens and errors."""
    policy = EndpointPolicy(model, url, EndpointSettings(temperature=0.7, max_tokens=1024))
    factory = EnvFactory(env_id, {"dialect": "native"})  # the server receives the tools and parses the calls
    tasks = list(iterate(make(env_id).tasks, "test", limit=count))
    print_summary(evaluate(factory, policy, tasks, attempts, out=out))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--env", default="sql")
    parser.add_argument("--tasks", type=int, default=25, help="how many tasks to play")
    parser.add_argument("--attempts", type=int, default=1, help="how often to play each")
    parser.add_argument("--out", type=Path, help="JSONL file that keeps the episodes")
    arguments = parser.parse_args()
    main(arguments.url, arguments.model, arguments.env, arguments.tasks, arguments.attempts, arguments.out)
