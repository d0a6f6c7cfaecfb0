"""The software-engineering environment: fix a repository, graded by hidden tests in fresh sandboxes."""

from agentgym.envs.swe.env import SWEEnv
from agentgym.envs.swe.options import Tier, g_ra

__all__ = ["SWEEnv", "Tier", "g_ra"]
