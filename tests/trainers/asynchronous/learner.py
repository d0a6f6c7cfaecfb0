"""A learning policy without weights. Its module imports little, since the process that plays has to import it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from agentgym.core.policy import Generation


class Letters:
    """A codec without a tokenizer: one token per character."""

    def open(self, messages: Any, tools: Any) -> list[int]:
        return [ord(c) for c in "".join(str(message["content"]) for message in messages)]

    def extend(self, observation: Any, last_id: int) -> list[int]:
        return self.open(observation, ())

    def decode(self, ids: Any) -> str:
        return "".join(map(chr, ids))


@dataclass
class Learner:
    """Says a letter, good ones in every second attempt; slowly, if it shall be interrupted."""

    pause_s: float = 0.0
    name: str = "learner"
    context: int = 10_000
    version: int = 0
    codec: Any = field(default_factory=Letters)

    async def generate(
        self, ids: Any, max_new_tokens: int, session: str, *, timeout_s: float | None = None
    ) -> Generation:
        await asyncio.sleep(self.pause_s)
        letter = "a" if int(session.rpartition("#")[2]) % 2 else "A"
        return Generation([ord(letter)], [-1.0], "stop", self.version)

    def release(self, session: str) -> None: ...

    def updated(self, version: int) -> None:
        self.version = version
