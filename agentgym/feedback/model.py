"""`ModelUser`: feedback by a model that sees the gold and must not reveal it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from agentgym.engine.actions import text_in
from agentgym.errors import UsageError
from agentgym.feedback.scene import FeedbackContext, observation_text
from agentgym.feedback.simulator import Remark
from agentgym.lookahead.cost import SearchCost
from agentgym.lookahead.voice import answer_of
from agentgym.policy import ChatPolicy, ScriptedPolicy, TokenPolicy
from agentgym.rollout.limits import Limits

MOST_CHARS = 2_000
"""Longer feedback is cut."""
_CONVERSATION_CHARS = 24_000

_QUESTION = """An assistant works on a task with tools, and you watch as its user. You know the right answer, which \
only serves you to judge whether the assistant is on the right way:

{gold}

NEVER reveal the answer or a part of it, and do not make the next step for the assistant. Here is the conversation so \
far:

{conversation}

In at most two sentences, tell the assistant what is good or wrong about its last step and what to think about next."""


@dataclass(frozen=True)
class ModelUser:
    """Asks a policy for feedback.

    Args:
        policy: The model.
        limits: Limits of a comment.
    """

    policy: ChatPolicy | TokenPolicy
    limits: Limits = field(default_factory=Limits)

    sees_gold = True

    def __post_init__(self) -> None:
        if isinstance(self.policy, ScriptedPolicy):
            raise UsageError("a scripted policy cannot give feedback: name a model, or use --feedback scripted")

    @property
    def name(self) -> str:
        """The name of the model."""
        return self.policy.name

    async def remark(self, scene: FeedbackContext, key: str) -> Remark:
        """Ask the model."""
        cost = SearchCost()
        text = await answer_of(self.policy, _question(scene), key, self.limits, cost)
        usage = {"completion_tokens": cost.sampled_tokens, "prompt_tokens": cost.prompt_tokens, "cost": cost.cost}
        return Remark(text.strip()[:MOST_CHARS], {name: value for name, value in usage.items() if value})


def _question(scene: FeedbackContext) -> str:
    parts = [f"[user] {observation_text(scene.opening)}"]
    for action, observation in scene.turns:
        parts += [f"[assistant] {text_in(action) if isinstance(action, str) else json.dumps(action, default=str)}"]
        parts += [f"[result] {observation_text(observation)}"]
    text = "\n".join(parts)
    half = _CONVERSATION_CHARS // 2
    text = text if len(text) <= _CONVERSATION_CHARS else f"{text[:half]}\n[…]\n{text[-half:]}"
    return _QUESTION.format(gold=json.dumps(dict(scene.task.gold), default=str)[:8_000], conversation=text)
