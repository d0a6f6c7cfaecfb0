"""An OpenAI-compatible endpoint in front of a token policy: it records the tokens of agents that know nothing of it.

An agent talks to the endpoint as to any other. Its calls are joined into trajectories with the tokens as they were
sampled, their log-probabilities and the versions of the weights, ready to train on.
"""

from agentgym.interop.gateway.gateway import Gateway, GatewaySettings
from agentgym.interop.gateway.server import serving
from agentgym.interop.gateway.session import GatewaySession, Played

__all__ = ["Gateway", "GatewaySession", "GatewaySettings", "Played", "serving"]
