"""Record an unmodified agent, token by token, through an OpenAI-compatible gateway.

The agent below is plain HTTP with a tool of its own. Its calls become trajectories with the sampled tokens, their
log-probabilities and its reward, ready to train on. Any agent with a configurable base URL works in its place.

    pip install 'agentgym-suite[train,serve]'
    python examples/gateway.py games.jsonl    # then: agentgym view games.jsonl
"""

import json
import sys
from pathlib import Path

import httpx

from agentgym.interop.served.gateway import Gateway, GatewaySettings, SessionTask, serving
from agentgym.rollout import Limits
from agentgym.trainers.config import load_config
from agentgym.trainers.policies import load_model, make_policy

SMALL = {"warm_start_steps": 200, "warm_start_tasks": 500, "tiny_hidden": 64, "tiny_layers": 2, "tiny_vocabulary": 512}
NUMBER = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
TOOLS = [{"type": "function", "function": {"name": "guess", "description": "Guess the number.", "parameters": NUMBER}}]


def agent(base_url: str, api_key: str, hidden: int) -> bool:
    """Let the model at `base_url` guess a number; return whether it succeeds."""
    messages = [{"role": "user", "content": "I have chosen a whole number from 1 to 10. Find it."}]
    with httpx.Client(base_url=base_url, headers={"Authorization": f"Bearer {api_key}"}, timeout=60) as client:
        for _ in range(8):
            body = {"model": "any", "messages": messages, "tools": TOOLS}
            message = client.post("/chat/completions", json=body).raise_for_status().json()["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                messages.append({"role": "user", "content": "Please call guess."})
            for call in message.get("tool_calls") or ():
                number = json.loads(call["function"]["arguments"]).get("number")
                if number == hidden:
                    return True
                answer = (
                    f"It is {'higher' if number < hidden else 'lower'}." if isinstance(number, int) else "No number."
                )
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": answer})
    return False


def main(out: Path) -> None:
    """Serve a tiny model, let the agent play ten games with it, and reward each."""
    policy = make_policy(*load_model(load_config(None, {"env": "guess", **SMALL})), name="tiny")
    gateway = Gateway(policy, GatewaySettings(dialect="compact", limits=Limits(max_new_tokens=16), out=out))
    with serving(gateway):
        for hidden in range(1, 11):
            session = gateway.session(f"game-{hidden}", SessionTask(task_id=f"hidden-{hidden}", seed=0))
            reward = float(agent(session.base_url, session.api_key, hidden))
            for row in session.reward(reward):
                print(f"{row.id}: {len(row.turns)} turns, {row.tokens.sampled} sampled tokens, reward {row.reward:g}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "games.jsonl"))
