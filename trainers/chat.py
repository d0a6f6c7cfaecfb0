"""Converts between chat messages and token ids, for any tokenizer with a chat template. Never re-renders the history.

To get the tokens that follow a model turn, the codec renders a short placeholder conversation with the observation and
takes what the template adds after the assistant's turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.errors import UsageError
from agentgym.messages import Message, as_template_content, without_pictures
from agentgym.trainers.control_tokens import ControlTokens
from agentgym.trainers.rendering import ASKED, SAID, Renderer
from agentgym.trainers.seating import common


class ChatCodec:
    """Renders openings and observations with a tokenizer's chat template.

    The history keeps every sampled token, including reasoning: templates that drop the thoughts of earlier turns
    (Qwen3, DeepSeek-R1) do so only when they re-render a conversation. Control tokens in the text of users and tools
    are encoded as plain text.

    Args:
        tokenizer: A transformers tokenizer or processor with a chat template, and a token that ends a turn.
        with_tools: Pass the tool schemas to the template; for dialects that leave the tool instructions to it.
        template_kwargs: Arguments of the template, e.g. `{"enable_thinking": False}`.
        end_ids: Tokens that end a turn, in addition to the tokenizer's and the template's.
        sees: Whether the model accepts pictures. Otherwise a line of text stands for each picture.

    Raises:
        UsageError: The chat template is missing or unusable.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        with_tools: bool = False,
        template_kwargs: Mapping[str, Any] | None = None,
        end_ids: Sequence[int] = (),
        sees: bool = False,
    ):
        self._renderer = Renderer(tokenizer, template_kwargs=template_kwargs)
        self.tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
        self.sees = sees
        self._control = ControlTokens(self.tokenizer, (sees and getattr(tokenizer, "image_token", None)) or "")
        self._with_tools = with_tools and self._renderer.abilities.tools
        self._tools: list[Mapping[str, Any]] | None = None
        self._special = _special(self.tokenizer)
        own: int | None = self.tokenizer.eos_token_id
        self.end_ids = frozenset({own, *end_ids} - {None})
        """Tokens that end a turn."""
        self.before_end, written = self._learn_end()
        """Text that the template writes between the turn's text and its end token."""
        end = next((token for token in (written, own, *sorted(self.end_ids)) if token is not None), None)
        if end is None:
            raise UsageError(
                f"neither the tokenizer {self._renderer.name!r} nor its chat template has a token that ends a turn, so "
                "the model would never stop; set tokenizer.eos_token and save it with the model"
            )
        self.end_id: int = end
        """The end token that the template writes, or else the tokenizer's."""

    def open(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Return the ids of the opening messages, up to the model's first turn."""
        self._tools = list(tools) if self._with_tools else None
        text = self._renderer.render(self._readable(messages), generate=True, tools=self._tools)
        return self._encode(text)

    def extend(self, observation: Sequence[Message], last_id: int) -> list[int]:
        """Return the ids between a model turn whose last token was `last_id` and its next turn."""
        # Templates that look up the call of a result would not find it in the placeholder conversation.
        anonymous = [{k: v for k, v in message.items() if k != "tool_call_id"} for message in observation]
        closing, glue = self._after_turn(self._readable(anonymous))
        ids = self._encode(glue)
        return ids if last_id in self.end_ids else [*self._encode(closing), *ids]

    def say(self, text: str) -> list[int]:
        """Return the ids of a model turn, with the token that ends it: the inverse of `decode`."""
        return [*self._encode(text + self.before_end), self.end_id]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of sampled ids without the token that ends a turn."""
        content = ids[:-1] if ids and ids[-1] in self.end_ids else ids
        text = self.tokenizer.decode(content, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text.removesuffix(self.before_end) if self.before_end else text

    def _readable(self, messages: Sequence[Any]) -> list[dict[str, Any]]:
        """Return messages with pictures as templates expect them, or as text for a text-only model."""
        readable = messages if self.sees else map(without_pictures, messages)
        return [
            {**message, "content": as_template_content(self._control.only_spelled(message))} for message in readable
        ]

    def _learn_end(self) -> tuple[str, int | None]:
        """Add the template's end token to `end_ids`; return the text that precedes it and the token."""
        closing, _ = self._after_turn([ASKED])
        alone = self._after_stand_in([], generate=False)
        written = closing if alone.startswith(closing) else alone
        if (end := self._last_special(written)) is None:
            return "", None
        token: int = self.tokenizer.convert_tokens_to_ids(end[1])
        self.end_ids |= {token}
        return written[: end.start(1)].strip(), token

    def _after_turn(self, observation: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
        """Return the text that ends a model turn, and the text from there to the next model turn."""
        # The text before the placeholder may differ, since some templates drop earlier thoughts. That does not matter:
        # the history keeps the sampled tokens.
        alone = self._after_stand_in([], generate=False)
        followed = self._after_stand_in(observation, generate=True)
        same = self._last_special(alone[: common(alone, followed)])
        end = same.end() if same is not None else self._end_of_earlier(alone, followed)
        if not end:
            raise UsageError(
                f"the chat template of {self._renderer.name!r} drops or changes earlier turns, or does not end them "
                "with a token; a conversation cannot be extended with it. Use another model or tokenizer"
            )
        return followed[:end], followed[end:]

    def _end_of_earlier(self, alone: str, followed: str) -> int:
        """Return where an earlier turn ends if it ends differently from the last one; 0 if it has no end token.

        gpt-oss ends its last turn with `<|return|>` and earlier ones with `<|end|>`; in GLM-4, the next role's token
        ends a turn.
        """
        first = self._special.match(followed)
        if first is None:
            return 0
        is_role = self.tokenizer.convert_tokens_to_ids(first[1]) in self.end_ids
        return first.end() if is_role or self._special.match(alone) else 0

    def _after_stand_in(self, observation: Sequence[Mapping[str, Any]], *, generate: bool) -> str:
        conversation = [ASKED, {"role": "assistant", "content": SAID}, *observation]
        return self._renderer.render(conversation, generate=generate, tools=self._tools).partition(SAID)[2]

    def _last_special(self, text: str) -> re.Match[str] | None:
        return next(reversed([*self._special.finditer(text)]), None)

    def _encode(self, text: str) -> list[int]:
        return self._control.encode(text)


def _special(tokenizer: Any) -> re.Pattern[str]:
    """Return a pattern for special tokens, with any white space before them."""
    added = [str(token.content) for token in tokenizer.added_tokens_decoder.values()]
    names = sorted({*added, *tokenizer.all_special_tokens}, key=len, reverse=True)
    return re.compile(rf"\s*({'|'.join(map(re.escape, names)) or '(?!)'})")
