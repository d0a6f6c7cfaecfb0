"""What agents are told of errors, in the form of OpenAI's endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentgym.errors import AgentGymError, UsageError
from agentgym.foreign.errors import describe
from agentgym.interop.gateway.errors import Refused


@dataclass(frozen=True)
class Problem:
    """An error as agents see it."""

    message: str
    status: int
    code: str
    param: str | None = None

    @property
    def body(self) -> dict[str, Any]:
        """What stands under `error` in an answer."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"message": self.message, "type": kind, "code": self.code, "param": self.param}


def problem_of(error: Exception) -> Problem:
    """Return what to tell of an error."""
    if isinstance(error, Refused):
        return Problem(str(error), error.status, error.code, error.param)
    if isinstance(error, UsageError):
        return Problem(str(error), 422, "usage")
    if isinstance(error, AgentGymError):
        return Problem(str(error), 502, "infrastructure")
    return Problem(describe(error), 500, "server_error")
