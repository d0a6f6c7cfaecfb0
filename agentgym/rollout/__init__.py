"""Rollouts: an engine that plays groups of episodes, with bounds on everything in flight."""

from agentgym.rollout.engine import RolloutEngine
from agentgym.rollout.failures import Backoff, Breaker, Component, Failures, Outage
from agentgym.rollout.jobs import EnvFactory, Group, Job, PlayedGroup
from agentgym.rollout.limits import Limits
from agentgym.rollout.streams import rollouts

__all__ = [
    "Backoff",
    "Breaker",
    "Component",
    "EnvFactory",
    "Failures",
    "Group",
    "Job",
    "Limits",
    "Outage",
    "PlayedGroup",
    "RolloutEngine",
    "rollouts",
]
