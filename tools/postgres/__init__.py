"""PostgreSQL servers of our own: started for a purpose, confined, and removed when it is over."""

from agentgym.tools.postgres.pool import KEPT, ServerPool, default_pool
from agentgym.tools.postgres.server import PORT, USER, Server
from agentgym.tools.postgres.session import Outcome, Session

__all__ = ["KEPT", "PORT", "USER", "Outcome", "Server", "ServerPool", "Session", "default_pool"]
