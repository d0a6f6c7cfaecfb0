"""Checks that a policy can play an environment at all: the prompt fits, tokens are sampled, some turns parse.

Without these checks, such a failure looks like a weak model in a run that works.
"""

from __future__ import annotations

from agentgym.base.errors import UsageError
from agentgym.core.engine.steps import reset_options
from agentgym.core.making import closed_after
from agentgym.core.policy import Codec
from agentgym.core.task import Task
from agentgym.rollout import EnvFactory


def check_prompt_fits(codec: Codec, context: int, factory: EnvFactory, task: Task, what_to_change: str) -> None:
    """Raise `UsageError` if the opening of a task leaves no room for a single token.

    Args:
        codec: Converts the messages of the opening to token ids.
        context: Longest conversation of the policy, in tokens.
        factory: Makes the environment.
        task: The task whose opening is measured.
        what_to_change: Advice, as the end of the error's message.
    """
    with closed_after(factory()) as env:
        observation, info = env.reset(seed=0, options=reset_options(task, None))
        length = len(codec.open(observation, info["tools"]))
    if length >= context:
        raise UsageError(
            f"the first prompt of {task.id!r} has {length} tokens and does not fit into the context of {context}: "
            f"nothing would be sampled. {what_to_change}"
        )


def why_barren(sampled_tokens: float | None, format_error_rate: float | None) -> str | None:
    """Return why the episodes do not measure the model's ability, or `None` if they do.

    Args:
        sampled_tokens: Sampled tokens per episode; `None` if the policy speaks in messages.
        format_error_rate: Format errors per turn; `None` without turns.
    """
    if sampled_tokens == 0:
        return "nothing was sampled: the context holds only the first prompt; raise it"
    if format_error_rate is not None and format_error_rate >= 1:
        return (
            "every turn was a format error: no tool call could be read. Choose the dialect that the model was trained "
            "on (--dialect), allow longer turns, or train it on solutions first (supervised)"
        )
    return None
