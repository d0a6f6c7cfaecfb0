"""Token policies without weights, for tests of what an agent's tokens become."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from agentgym.core.messages import Message, text_of
from agentgym.core.policy import Codec, Generation

START, END = 1, 0
_RANGE = re.compile(r"whole number from 1 to (\d+)")
_GUESS = re.compile(r'"arguments": ?\{"number": ?(\d+)\}')
_ANSWER = re.compile(r"It is (higher|lower)")


class Letters:
    """A codec over code points: text is its characters' numbers plus two; messages have a start and an end."""

    def open(self, messages: Sequence[Message], tools: Sequence[Any]) -> list[int]:
        return [*self._written(messages), START]

    def extend(self, observation: Sequence[Message], last_id: int) -> list[int]:
        return [*([] if last_id == END else [END]), *self._written(observation), START]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(i - 2) for i in ids if i > 1)

    def _written(self, messages: Sequence[Message]) -> list[int]:
        return [i for m in messages for i in (START, *(ord(c) + 2 for c in text_of(m)), END)]


class Speaker:
    """A token policy that says what a function makes of the conversation so far.

    Args:
        say: Returns the next turn, given the conversation as text. It may raise.
        context: Longest conversation, in tokens.
    """

    name = "speaker"

    def __init__(self, say: Callable[[str], str], context: int = 100_000):
        self.codec: Codec = Letters()
        self.context, self._say = context, say
        self.version = 0
        self.asked: dict[str, list[int]] = {}
        """The tokens of each conversation after its last turn."""
        self.released: list[str] = []

    def updated(self, version: int) -> None:
        self.version = version

    async def generate(self, ids: Sequence[int], max_new_tokens: int, session: str, **_: Any) -> Generation:
        before = self.asked.get(session, [])
        assert list(ids[: len(before)]) == before, "a conversation was rewritten under its name"
        sampled = [*(ord(c) + 2 for c in self._say(self.codec.decode(ids))), END][:max_new_tokens]
        self.asked[session] = [*ids, *sampled]
        logprobs = [-(1 + n % 7) / 10 for n in range(len(sampled))]
        return Generation(sampled, logprobs, "stop" if sampled[-1] == END else "length", self.version)

    def release(self, session: str) -> None:
        self.asked.pop(session, None)
        self.released.append(session)


def halving(conversation: str) -> str:
    """Play `guess` in the dialect `hermes`: halve the range until the number is found, then say so."""
    if "Correct." in conversation or not (ranges := _RANGE.findall(conversation)):
        return "Found it."
    low, high = 1, int(ranges[-1])
    for number, answer in zip(_GUESS.findall(conversation), _ANSWER.findall(conversation), strict=False):
        low, high = (int(number) + 1, high) if answer == "higher" else (low, int(number) - 1)
    return f'<tool_call>\n{{"name": "guess", "arguments": {{"number": {(low + high) // 2}}}}}\n</tool_call>'


def make_halving() -> Speaker:
    """Return the policy that plays `guess`; the gateway's command makes it by this name."""
    return Speaker(halving)
