"""Shorter conversations for policies with a small context: old observations are cut, what the policy said is kept.

WebAgent-R1's dynamic context compression (arXiv 2505.16421): a page that has been acted on is worth little later. For
policies that speak in messages; token policies never have their history rendered again.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.messages import Message, pictures_in, text_of


def shorten_observations(messages: Sequence[Message], keep: int = 1, max_chars: int = 200) -> list[Message]:
    """Return a conversation in which old observations are short.

    Args:
        messages: All of it. System messages, the policy's own and the first observation's text (it states the task)
            up to the first empty line stay whole.
        keep: How many of the last observations (what lies between two of the policy's messages) stay whole.
        max_chars: Characters kept of each message of an old one. Its pictures are dropped.
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
