"""Parses feedback settings: `scripted`, `openai:MODEL@URL`, `scripted,when=mistake`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast, get_args

from agentgym.choices import one_of
from agentgym.errors import UsageError
from agentgym.feedback.adviser import When
from agentgym.feedback.model import ModelUser
from agentgym.feedback.scripted import ScriptedUser
from agentgym.feedback.with_feedback import WithFeedback
from agentgym.policy import Policy, ScriptedPolicy

SCRIPTED = "scripted"
_WHEN = re.compile(r",\s*when=(\w*)$")


@dataclass(frozen=True)
class TypedFeedback:
    """A feedback setting whose model is not loaded yet."""

    source: str
    when: When

    @property
    def name(self) -> str:
        """The setting as typed, in full."""
        return f"{self.source},when={self.when}"

    @property
    def model(self) -> str | None:
        """The name of the policy that gives feedback; `None` for the script."""
        return None if self.source == SCRIPTED else self.source

    def loaded(self, load_model: Callable[[str], Policy]) -> WithFeedback:
        """Return the feedback.

        Args:
            load_model: Loads the model by its name.
        """
        if self.model is None:
            return WithFeedback(ScriptedUser(), self.when)
        policy = load_model(self.model)
        if isinstance(policy, ScriptedPolicy):
            raise UsageError("a scripted policy cannot give feedback: name a model, or use --feedback scripted")
        return WithFeedback(ModelUser(policy), self.when)


def read_feedback(text: str) -> TypedFeedback:
    """Parse the value of `--feedback`. Raises `UsageError` if it is empty or has an unknown `when`."""
    match = _WHEN.search(text)
    source, when = (text[: match.start()], match[1]) if match else (text, "turn")
    if not source.strip():
        raise UsageError("--feedback takes scripted, or a model such as openai:MODEL@URL")
    return TypedFeedback(source.strip(), cast(When, one_of("when", when, get_args(When))))
