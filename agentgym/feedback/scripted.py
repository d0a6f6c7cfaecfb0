"""`ScriptedUser`: rule-based feedback on errors, repetitions and turns left. It does not see the gold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from agentgym.engine.actions import is_text, text_in
from agentgym.engine.spaces import Action
from agentgym.feedback.scene import FeedbackContext, observation_text
from agentgym.feedback.simulator import Remark
from agentgym.mistakes import has_error

FEW = 2
"""The user announces the turns left from this number down."""


@dataclass(frozen=True)
class ScriptedUser:
    """Comments like a patient user, or says nothing."""

    name = "scripted"
    sees_gold = False

    async def remark(self, scene: FeedbackContext, key: str) -> Remark:
        """Comment on an error or repetition in the last turn, and on the turns left if they are few."""
        parts = [_about_the_turn(scene), _about_time(scene)]
        return Remark(" ".join(part for part in parts if part))


def _about_the_turn(scene: FeedbackContext) -> str:
    action, observation = scene.turns[-1]
    texts = [_action_text(earlier) for earlier, _ in scene.turns[:-1]]
    same = [number for number, text in enumerate(texts, start=1) if text == _action_text(action)]
    failed = has_error(observation_text(observation))
    if same and failed:
        return f"You did the same in turn {same[-1]} and it failed again. Read the error and change what it names."
    if same:
        return f"You did the same in turn {same[-1]}. Use what you learned then, or try something else."
    if failed and len(scene.turns) > 1 and has_error(observation_text(scene.turns[-2][1])):
        return "That failed again. Step back: look at what you know for certain, and try a simpler step."
    return "That did not work. Read the error: it says what to change." if failed else ""


def _about_time(scene: FeedbackContext) -> str:
    turns = scene.turns_left
    if turns == 0 or turns > FEW:
        return ""
    return f"You have {turns} turn{'s' if turns > 1 else ''} left: give your best answer now."


def _action_text(action: Action) -> str:
    if isinstance(action, str) or is_text(action):
        return " ".join(text_in(action).split())
    calls = action.get("tool_calls") or ()
    return json.dumps([call.get("function") if isinstance(call, Mapping) else call for call in calls], default=str)
