"""The search environment."""

from agentgym.envs.search.deciding import Deciding
from agentgym.envs.search.env import SearchEnv
from agentgym.envs.search.judging import Judging
from agentgym.envs.search.mode import Mode, ModePart
from agentgym.envs.search.simulating import Simulating

__all__ = ["Deciding", "Judging", "Mode", "ModePart", "SearchEnv", "Simulating"]
