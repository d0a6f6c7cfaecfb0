"""The OpenEnv side of `served_steps_vs_openenv`, run by the Python that has `openenv`. Does not import agentgym.

`serve PORT` serves the guessing game with OpenEnv's own server; `play URL SECONDS SEED` plays it with its own client.
"""

from __future__ import annotations

import logging
import random
import sys
from importlib import metadata
from typing import Any

from openenv.core import EnvClient  # pyright: ignore[reportMissingImports]
from openenv.core.client_types import StepResult  # pyright: ignore[reportMissingImports]
from openenv.core.env_server.http_server import create_app  # pyright: ignore[reportMissingImports]
from openenv.core.env_server.interfaces import Environment  # pyright: ignore[reportMissingImports]
from openenv.core.env_server.types import Action, Observation, State  # pyright: ignore[reportMissingImports]
from pydantic import Field

from benchmarks._halving import play

TURNS = 12


class Guess(Action):
    number: int = Field(..., description="Your guess.")


class Answer(Observation):
    text: str = Field(default="")
    highest: int = Field(default=10)


class GuessEnvironment(Environment):
    """Find a hidden number by asking whether it is higher or lower."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        self._state = State(episode_id="0", step_count=0)
        self._hidden = self._highest = 1

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Answer:
        rng = random.Random(seed)
        self._highest = rng.choices((10, 100, 1000), (10, 100, 1000))[0]
        self._hidden = rng.randint(1, self._highest)
        self._state = State(episode_id=episode_id or str(seed), step_count=0)
        text = f"I have chosen a whole number from 1 to {self._highest}. Find it."
        return Answer(text=text, highest=self._highest, done=False, reward=0.0)

    def step(self, action: Guess) -> Answer:
        self._state.step_count += 1
        if action.number == self._hidden:
            return Answer(text="Correct.", highest=self._highest, done=True, reward=1.0)
        text = "It is higher." if action.number < self._hidden else "It is lower."
        return Answer(text=text, highest=self._highest, done=self._state.step_count >= TURNS, reward=0.0)

    @property
    def state(self) -> State:
        return self._state


class GuessClient(EnvClient[Guess, Answer, State]):
    def _step_payload(self, action: Guess) -> dict[str, Any]:
        return {"number": action.number}

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[Answer]:
        observation = payload.get("observation", {})
        done, reward = payload.get("done", False), payload.get("reward")
        answer = Answer(
            text=observation.get("text", ""), highest=observation.get("highest", 10), done=done, reward=reward
        )
        return StepResult(observation=answer, reward=reward, done=done)

    def _parse_state(self, payload: dict[str, Any]) -> State:
        return State(episode_id=payload.get("episode_id"), step_count=payload.get("step_count", 0))


def serve(port: int) -> None:
    import uvicorn

    app = create_app(GuessEnvironment, Guess, Answer, env_name="guess", max_concurrent_envs=16)
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


class Guessing:
    """The game with OpenEnv's client and its typed actions."""

    def __init__(self, client: Any):
        self._client = client

    def begin(self, seed: int) -> int:
        return self._client.reset(seed=seed).observation.highest

    def guess(self, number: int) -> tuple[str, bool]:
        result = self._client.step(Guess(number=number))
        return result.observation.text, result.done


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    command, *rest = sys.argv[1:]
    if command == "serve":
        serve(int(rest[0]))
    elif command == "version":
        print(metadata.version("openenv"))
    else:
        url, seconds, seed = rest
        with GuessClient(base_url=url).sync() as client:
            play(Guessing(client), float(seconds), int(seed))
