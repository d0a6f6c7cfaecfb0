"""`OpenEnvEnv`: an environment on an OpenEnv server, whose typed action becomes a tool."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Unpack

from agentgym.base.errors import InfrastructureError, ToolError, UsageError
from agentgym.core.endings import Ending, Reason
from agentgym.core.engine.authoring import EnvArguments
from agentgym.core.foreign import describe
from agentgym.core.rewards import OUTCOME, Channel, Scheme
from agentgym.core.schema_tool import SchemaTool
from agentgym.core.task import Task
from agentgym.core.toolset import Toolset
from agentgym.interop.packages import package
from agentgym.interop.wrapper import Caveat, Wrapped, chance_caveats, seed_caveats, seed_tasks

_client = package("openenv.core.generic_client")
_log = logging.getLogger(__name__)
_UNLIMITED = float("inf")
_ASK_S = 30.0
_STEP = "step"
_INVALID = "code: VALIDATION_ERROR"
_OWN = frozenset({"done", "reward", "metadata"})


class OpenEnvEnv(Wrapped):
    """Play an environment that an OpenEnv server runs. Each instance is one session of the server.

    Task: one seed, which `reset` passes to the server; servers may ignore it (see `caveats`).
    Tools: `act`, whose arguments are the fields of the server's action.
    Observation: the fields of the server's observation.
    Reward: `outcome` 1 if the sum of rewards reaches `solved_at`; `reward`, the server's reward for the turn, which
        the scheme `own` passes on.
    Episode end: the server reports `done` (`solved` or `over`; it does not report limits separately), or `max_turns`.

    Args:
        url: The server, such as `http://127.0.0.1:8000`.
        prompt: The task for the model; the server itself only sends the first observation.
        solved_at: The lowest sum of rewards that counts as solved.
        answer_s: Seconds to wait for an answer.
    """

    channels = {
        OUTCOME: Channel("1 if the sum of rewards reached what counts as solved"),
        "reward": Channel("what the server pays for the turn", -_UNLIMITED, _UNLIMITED, per_turn=True),
    }
    schemes: ClassVar[Mapping[str, Scheme]] = {"own": Scheme({"reward": 1.0}, allow_unsound=True)}
    reasons: ClassVar[Mapping[str, Ending]] = {"over": Ending.TERMINATED}
    states_turns = True
    max_turns = 50

    def __init__(
        self,
        url: str,
        *,
        prompt: str = "",
        solved_at: float = 1.0,
        answer_s: float = _ASK_S,
        **kwargs: Unpack[EnvArguments],
    ):
        self._url, self._solved_at, self._answer_s = url.rstrip("/"), solved_at, answer_s
        self._session: Any = None
        self._connection: Any = None
        schema = {"name": "act", "description": "Take one action.", "parameters": self._action_schema()}
        self.tools = Toolset([SchemaTool(schema, self._act)])
        prompt = prompt or "Reach the goal of the environment."
        super().__init__(tasks=seed_tasks("openenv", f"{prompt}\n\nCall `act` in every turn."), **kwargs)

    def _action_schema(self) -> dict[str, Any]:
        """Return the schema of the server's action, without its metadata."""
        import httpx  # OpenEnv requires it

        try:
            reply = httpx.get(f"{self._url}/schema", timeout=self._answer_s, follow_redirects=True)
            schema = reply.raise_for_status().json()["action"]
            fields = {name: field for name, field in schema.get("properties", {}).items() if name != "metadata"}
        except Exception as error:  # nothing answers there, or another kind of server
            raise UsageError(f"cannot reach an OpenEnv server at {self._url}: {describe(error)}") from error
        described = {name: {"description": f"The action's {name}.", **field} for name, field in fields.items()}
        return {**schema, "properties": described}

    def start(self, task: Task) -> str:
        """Reset the server's episode with the task's seed."""
        self._total = 0.0
        result = self._ask(lambda session: session.reset(seed=task.data["seed"]), "reset")
        return f"{task.prompt}\n\n{_text(result.observation)}"

    def _act(self, arguments: dict[str, Any]) -> str:
        result = self._ask(lambda session: session.step(arguments), _STEP)
        reward = float(result.reward or 0.0)
        self._total += reward
        self.reward("reward", reward)
        if result.done:
            solved = self._total >= self._solved_at
            self.reward(OUTCOME, float(solved))
            self.finish(Reason.SOLVED if solved else "over")
        return _text(result.observation)

    def _ask(self, request: Any, what: str) -> Any:
        """Send a request in this instance's session. Raises `InfrastructureError` if it fails."""
        try:
            if self._session is None:
                self._session = _client.GenericEnvClient(self._url, message_timeout_s=self._answer_s).sync()
                self._session.connect()
            result = request(self._session)
            if what == _STEP and _connection_of(self._session) is not self._connection:
                raise ConnectionError("the connection broke, and the client played the step in a new session")
            self._connection = _connection_of(self._session)
            return result
        except Exception as error:
            if what == _STEP and _INVALID in str(error):
                raise ToolError("The server refuses this action: it does not match the declared schema.") from error
            self.release()  # the next episode begins in a new session
            raise InfrastructureError(f"{self._url}: {what}: {describe(error)}") from error

    def release(self) -> None:
        """End the session. A server that is gone has ended it already."""
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            except Exception as error:
                _log.debug("%s: close: %s", self._url, describe(error))

    def caveats(self) -> tuple[Caveat, ...]:
        """Test whether the server honours seeds: episodes with the same seed must begin and continue identically."""
        caveats = seed_caveats(
            self._opening,
            ignored="the server ignores seeds: two resets with one seed begin differently",
            alike="all seeds begin alike: either what differs is hidden, or seeds are ignored",
        )
        if not any(caveat.check for caveat in caveats):
            caveats += chance_caveats(self)
        return (*caveats, Caveat("solution-solves", "an OpenEnv server has no solutions"))

    def _opening(self, seed: int) -> str:
        return _text(self._ask(lambda session: session.reset(seed=seed), "reset").observation)


def _connection_of(session: Any) -> Any:
    """Return a session's current connection: the client may open another one by itself for any request."""
    return getattr(getattr(session, "_async", session), "_ws", None)


def _text(observation: Mapping[str, Any]) -> str:
    """Return the fields of an observation, one per line."""
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, sort_keys=True)}"
        for name, value in observation.items()
        if name not in _OWN
    )
