"""A server of OpenEnv with a small environment, as its users write them: find a hidden number."""

from __future__ import annotations

import random
import sys
from typing import Any

from openenv.core.env_server.http_server import create_fastapi_app  # pyright: ignore[reportMissingImports]
from openenv.core.env_server.interfaces import Environment  # pyright: ignore[reportMissingImports]
from openenv.core.env_server.types import Action, Observation, State  # pyright: ignore[reportMissingImports]

BREAKS = 777


class Guess(Action):
    number: int


class Told(Observation):
    text: str
    range: list[int] = [1, 20]


class Hidden(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True
    honours_seeds = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State()
        self.first, self.number = 0, 20

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Told:
        dice = random.Random(seed if self.honours_seeds else None)
        self.first, self.number = dice.randint(1, 10**6), dice.randint(1, 20)
        return Told(text=f"Round {self.first}: find the number.")

    def step(self, action: Guess, timeout_s: float | None = None, **kwargs: Any) -> Told:
        if action.number == BREAKS:
            raise OSError("the disk is full")
        if action.number == self.number:
            return Told(text="Found.", reward=1.0, done=True)
        return Told(text="Higher." if action.number < self.number else "Lower.", reward=0.0)

    @property
    def state(self) -> State:
        return self._state


class Seedless(Hidden):
    honours_seeds = False


if __name__ == "__main__":
    import uvicorn

    kind = {"hidden": Hidden, "seedless": Seedless}[sys.argv[1]]
    app = create_fastapi_app(kind, Guess, Told, max_concurrent_envs=16)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
