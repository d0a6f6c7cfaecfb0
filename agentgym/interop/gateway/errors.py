"""What a request of an agent can be refused for."""

from __future__ import annotations

from agentgym.errors import AgentGymError


class Refused(AgentGymError):
    """A request that cannot be answered, in the words and codes of chat endpoints.

    Args:
        message: Why.
        status: The HTTP status.
        code: What programs tell it by.
        param: The field of the request that is at fault, if one is.
    """

    def __init__(
        self, message: str, status: int = 400, code: str = "invalid_request_error", *, param: str | None = None
    ):
        super().__init__(message)
        self.status, self.code, self.param = status, code, param
