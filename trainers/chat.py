"""Converts between chat messages and token ids, for any tokenizer with a chat template. Never renders history again.

To find the tokens that follow a model turn, the codec renders a short stand-in conversation for each observation and
keeps what the template adds after the assistant's turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.errors import UsageError
from agentgym.messages import Message, pictures_in

_ASKED = {"role": "user", "content": "?"}
_SAID = "\u2042"
"""Stands for the text of the model: a character that no template writes by itself."""


class ChatCodec:
    """Renders openings and observations with a tokenizer's chat template.

    Args:
        tokenizer: A transformers tokenizer with a chat template and an end-of-turn token (`eos_token`).
        with_tools: Pass the tool schemas to the template. Only for dialects that leave the instructions to it.
        template_kwargs: Arguments of the template, e.g. `{"enable_thinking": False}`.
    """

    def __init__(self, tokenizer: Any, *, with_tools: bool = False, template_kwargs: Mapping[str, Any] | None = None):
        if not getattr(tokenizer, "chat_template", None):
            raise UsageError(f"the tokenizer {tokenizer.name_or_path!r} has no chat template; use an instruction model")
        self.tokenizer = tokenizer
        self.end_id: int = tokenizer.eos_token_id
        self._with_tools = with_tools
        self._kwargs = dict(template_kwargs or {})
        self._tools: list[Mapping[str, Any]] | None = None

    def open(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the ids of the opening messages, ready for the model's first turn."""
        self._tools = list(tools) if self._with_tools else None
        return self._encode(self._render(list(messages), generate=True))

    def extend(self, observation: Sequence[Message], last_id: int) -> list[int]:
        """Return the ids between a model turn whose last token was `last_id` and its next turn."""
        end = self.tokenizer.eos_token
        said = [_ASKED, {"role": "assistant", "content": _SAID}]
        # The text before the stand-in may differ (some templates drop the thoughts of earlier turns). It does not
        # matter: the history keeps the tokens that were sampled.
        alone = self._render(said, generate=False).partition(_SAID)[2]
        followed = self._render([*said, *_answering(observation)], generate=True).partition(_SAID)[2]
        closing = alone[: alone.find(end) + len(end)]
        if end not in alone or not followed.startswith(closing):
            raise UsageError(
                f"the chat template of {self.tokenizer.name_or_path!r} drops or changes earlier turns, or does not end "
                f"them with {end!r}; a conversation cannot be extended with it. Use another model or tokenizer"
            )
        glue = self._encode(followed[len(closing) :])
        return glue if last_id == self.end_id else [self.end_id, *glue]

    def say(self, text: str) -> list[int]:
        """Return the ids of a model turn, with the token that ends it: the inverse of `decode`."""
        return [*self._encode(text), self.end_id]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of sampled ids without the token that ends a turn."""
        said = ids[:-1] if ids and ids[-1] == self.end_id else ids
        return self.tokenizer.decode(said, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def _render(self, messages: Sequence[Any], *, generate: bool) -> str:
        return self.tokenizer.apply_chat_template(
            messages, tools=self._tools, tokenize=False, add_generation_prompt=generate, **self._kwargs
        )

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False)


def _answering(observation: Sequence[Message]) -> list[dict[str, Any]]:
    """Return an observation in the form that templates accept: a tool message needs only its role and content."""
    if any(pictures_in(message) for message in observation):
        raise UsageError("this model reads only text, but the environment shows pictures; turn off its screenshots")
    taken = ("role", "name", "content")
    return [{key: value for key, value in message.items() if key in taken} for message in observation]
