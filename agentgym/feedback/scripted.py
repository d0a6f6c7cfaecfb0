"""`ScriptedUser`: feedback by rules from what the policy sees too: errors, repetitions, turns left. No gold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from agentgym.engine.actions import is_text, text_in
from agentgym.engine.spaces import Action
from agentgym.feedback.scene import Scene, shown
from agentgym.feedback.simulator import Remark
from agentgym.mistakes import has_error

FEW = 2
"""From so many turns left on, the user says so."""


@dataclass(frozen=True)
class ScriptedUser:
    """Says what a patient user would notice, and nothing if there is nothing to say."""

    name = "scripted"
    sees_gold = False

    async def remark(self, scene: Scene, key: str) -> Remark:
        """Say what is wrong with the last turn, and how many turns are left if they are few."""
        parts = [_about_the_turn(scene), _about_time(scene)]
        return Remark(" ".join(part for part in parts if part))


def _about_the_turn(scene: Scene) -> str:
    action, observation = scene.turns[-1]
    same = [number for number, (before, _) in enumerate(scene.turns[:-1], start=1) if _said(before) == _said(action)]
    failed = has_error(shown(observation))
    if same and failed:
        return f"You did the same in turn {same[-1]} and it failed again. Read the error and change what it names."
    if same:
        return f"You did the same in turn {same[-1]}. Use what you learned then, or try something else."
    if failed and len(scene.turns) > 1 and has_error(shown(scene.turns[-2][1])):
        return "That failed again. Step back: look at what you know for certain, and try a simpler step."
    return "That did not work. Read the error: it says what to change." if failed else ""


def _about_time(scene: Scene) -> str:
    left = scene.turns_left
    if left > FEW:
        return ""
    return f"You have {left} turn{'s' if left > 1 else ''} left: give your best answer now." if left else ""


def _said(action: Action) -> str:
    if isinstance(action, str) or is_text(action):
        return " ".join(text_in(action).split())
    calls = action.get("tool_calls") or ()
    return json.dumps([call.get("function") if isinstance(call, Mapping) else call for call in calls], default=str)
