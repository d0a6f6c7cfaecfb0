"""Asking a policy a question that has nothing to do with an episode, as a judge or a simulated user is asked."""

from __future__ import annotations

from math import inf

from agentgym.dialects import get_dialect
from agentgym.engine.actions import text_in
from agentgym.lookahead.cost import Cost
from agentgym.lookahead.voices import ChatVoice, TokenVoice
from agentgym.messages import user
from agentgym.policy import ChatPolicy, TokenPolicy
from agentgym.rollout.limits import Limits
from agentgym.rollout.workers.base import Opening


async def answer(policy: ChatPolicy | TokenPolicy, question: str, key: str, limits: Limits, cost: Cost) -> str:
    """Return a policy's answer; empty if it has none or the question is too long for it.

    Args:
        policy: Whom to ask.
        question: The question.
        key: Names the question; the sample follows from it where the policy is seeded.
        limits: Limits of the answer.
        cost: Counts what it takes.

    Raises:
        InfrastructureError: The policy broke.
    """
    opening = Opening([user(question)], [], get_dialect("native"))
    voice = (
        TokenVoice.opening(policy, limits, cost, opening)
        if isinstance(policy, TokenPolicy)
        else ChatVoice(policy, limits, cost, opening)
    )
    said = await voice.say(key, inf)
    return "" if said.action is None else text_in(said.action)
