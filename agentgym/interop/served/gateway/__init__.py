"""An OpenAI-compatible endpoint in front of a token policy, which records the tokens of unmodified agents.

Agents use it like any other endpoint. Their calls are joined into trajectories with the sampled tokens, their
log-probabilities and the versions of the weights, ready to train on.
"""

from agentgym.interop.served.gateway.gateway import Gateway, GatewaySettings
from agentgym.interop.served.gateway.server import serving
from agentgym.interop.served.gateway.session import GatewaySession, SessionTask

__all__ = ["Gateway", "GatewaySession", "GatewaySettings", "SessionTask", "serving"]
