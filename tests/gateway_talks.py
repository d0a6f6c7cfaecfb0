"""Conversations with a policy through its gateway, and the engine's own record of them."""

from __future__ import annotations

from typing import Any

import httpx

from agentgym.core.trajectory import Tokens
from agentgym.interop.served.gateway import Gateway, GatewaySettings, serving
from agentgym.rollout.limits import Limits

Turns = list[tuple[list[int], list[int], list[float]]]
"""The history before each turn, its tokens and their log-probabilities."""

TURNS = 3
LIMITS = Limits(max_new_tokens=12)
HANG_S = 280.0
"""Ends a test that hangs. On a busy machine, an engine may compile for minutes before its first turn."""


class Watched:
    """An engine that records its samples."""

    def __init__(self, engine: Any):
        self._engine = engine
        self.said: Turns = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def step(self) -> list[Any]:
        outputs = self._engine.step()
        for output in outputs:
            if output.finished:
                [completion] = output.outputs
                ids = list(completion.token_ids)
                logprobs = [chances[token].logprob for token, chances in zip(ids, completion.logprobs, strict=True)]
                self.said.append((list(output.prompt_token_ids), ids, logprobs))
        return outputs


def conversation(policy: Any) -> Tokens:
    """Let a program talk for some turns in a session of a gateway; return the tokens of the only row."""
    gateway, messages = Gateway(policy, GatewaySettings(limits=LIMITS)), list[Any]()
    with serving(gateway):
        session = gateway.session("one")
        headers = {"Authorization": f"Bearer {session.api_key}"}
        with httpx.Client(base_url=session.base_url, headers=headers, trust_env=False, timeout=HANG_S) as client:
            for turn in range(TURNS):
                messages.append({"role": "user", "content": f"Turn {turn}."})
                answer = client.post("/chat/completions", json={"messages": messages, "temperature": 0.1})
                assert answer.status_code == 200, answer.text
                messages.append(answer.json()["choices"][0]["message"])
        [row] = session.reward(1.0)
    assert (len(row.turns), row.failed) == (TURNS, False)
    assert row.tokens is not None
    return row.tokens


def turns_of(tokens: Tokens) -> Turns:
    """The turns of a row."""
    history, ids = tokens.prompt_ids, tokens.completion_ids
    mask = [0, *tokens.loss_mask, 0]
    starts = [at for at in range(len(tokens.loss_mask)) if mask[at : at + 2] == [0, 1]]
    ends = [at + 1 for at in range(len(tokens.loss_mask)) if mask[at + 1 : at + 3] == [1, 0]]
    return [
        (history + ids[:start], ids[start:end], tokens.logprobs[start:end])
        for start, end in zip(starts, ends, strict=True)
    ]
