"""Errors in the format of OpenAI's endpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentgym.errors import AgentGymError, UsageError
from agentgym.foreign.errors import describe


class RequestRefused(AgentGymError):
    """A request that cannot be answered.

    Args:
        message: The reason.
        status: The HTTP status.
        code: OpenAI's error code.
        param: The field of the request that is at fault; `None` if there is no such field.
    """

    def __init__(
        self, message: str, status: int = 400, code: str = "invalid_request_error", *, param: str | None = None
    ):
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


@dataclass(frozen=True)
class ChatError:
    """An error in the format of OpenAI's endpoints."""

    message: str
    status: int
    code: str
    param: str | None = None

    @property
    def body(self) -> dict[str, Any]:
        """The value of `error` in a response."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"message": self.message, "type": kind, "code": self.code, "param": self.param}


def chat_error(error: Exception) -> ChatError:
    """Return an exception as agents see it."""
    if isinstance(error, RequestRefused):
        return ChatError(str(error), error.status, error.code, error.param)
    if isinstance(error, UsageError):
        return ChatError(str(error), 422, "usage")
    if isinstance(error, AgentGymError):
        return ChatError(str(error), 502, "infrastructure")
    return ChatError(describe(error), 500, "server_error")
