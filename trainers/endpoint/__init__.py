"""A policy behind an OpenAI-compatible chat endpoint. Needs the `[endpoint]` extra; imports no torch."""

from agentgym.trainers.endpoint.policy import EndpointPolicy as EndpointPolicy
from agentgym.trainers.endpoint.settings import EndpointSettings as EndpointSettings
from agentgym.trainers.endpoint.settings import Price as Price
