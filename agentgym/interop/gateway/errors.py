"""Refused requests, and errors in the form of OpenAI's endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentgym.errors import AgentGymError, UsageError
from agentgym.foreign.errors import describe


class Refused(AgentGymError):
    """A request that cannot be answered, in the words and codes of chat endpoints.

    Args:
        message: Why.
        status: The HTTP status.
        code: The name of the error for programs.
        param: The field of the request that is at fault, if there is such a field.
    """

    def __init__(
        self, message: str, status: int = 400, code: str = "invalid_request_error", *, param: str | None = None
    ):
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


@dataclass(frozen=True)
class Problem:
    """An error as agents see it."""

    message: str
    status: int
    code: str
    param: str | None = None

    @property
    def body(self) -> dict[str, Any]:
        """The value of `error` in an answer."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"message": self.message, "type": kind, "code": self.code, "param": self.param}


def problem_of(error: Exception) -> Problem:
    """Return an error as agents see it."""
    if isinstance(error, Refused):
        return Problem(str(error), error.status, error.code, error.param)
    if isinstance(error, UsageError):
        return Problem(str(error), 422, "usage")
    if isinstance(error, AgentGymError):
        return Problem(str(error), 502, "infrastructure")
    return Problem(describe(error), 500, "server_error")
