"""Shortens conversations for policies with a small context: cuts old observations, or drops earlier reasoning.

`shorten_observations` is WebAgent-R1's dynamic context compression (arXiv 2505.16421): an old page is worth little once
the policy has acted on it. Only for policies that speak in messages; the history of token policies is never
re-rendered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentgym.core.messages import Message, pictures_in, text_of

_FIELDS = frozenset({"reasoning_content", "reasoning_details"})
_REASONING = re.compile(r"\A.*?</think>\s*", re.DOTALL)
"""The reasoning that begins a turn; the chat template may have written the `<think>`."""


def shorten_observations(messages: Sequence[Message], keep: int = 1, max_chars: int = 200) -> list[Message]:
    """Return a conversation with its old observations shortened.

    Args:
        messages: The whole conversation. System messages, the policy's own messages and the text of the first
            observation up to the first empty line (it states the task) are kept in full.
        keep: Number of latest observations to keep in full. An observation is everything between two of the policy's
            messages.
        max_chars: Characters to keep of each message in an old observation. Its pictures are dropped.
    """
    ends = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
    old_until = ends[-keep] if 0 < keep <= len(ends) else 0 if keep else len(messages)
    task_until = ends[0] if ends else len(messages)
    return [
        _shortened(message, index < task_until, max_chars)
        if index < old_until and message.get("role") in ("user", "tool")
        else message
        for index, message in enumerate(messages)
    ]


def _shortened(message: Message, states_task: bool, max_chars: int) -> Message:
    text = text_of(message)
    head, _, rest = text.partition("\n\n") if states_task else ("", "", text)
    if len(rest) <= max_chars and not pictures_in(message):
        return message
    cut = rest if len(rest) <= max_chars else f"{rest[:max_chars]}… [{len(rest) - max_chars} characters left out]"
    return {**message, "content": f"{head}\n\n{cut}" if head else cut}


def drop_reasoning(messages: Sequence[Message]) -> list[Message]:
    """Return a conversation without the policy's reasoning: `<think>...</think>` and its fields.

    Most reasoning models are served this way: their templates drop the reasoning of earlier turns.
    """
    return [without_reasoning(message) if message.get("role") == "assistant" else message for message in messages]


def without_reasoning(message: Message) -> Message:
    """Return a message without its reasoning, unless it has no other content: endpoints refuse empty turns."""
    shortened: Message = {key: value for key, value in message.items() if key not in _FIELDS}  # type: ignore[assignment]
    content = message.get("content")
    if isinstance(content, str) and ((rest := _REASONING.sub("", content)) or message.get("tool_calls")):
        shortened["content"] = rest
    return shortened
