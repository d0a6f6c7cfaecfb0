"""The search environment."""

from agentgym.envs.search.deciding import Deciding
from agentgym.envs.search.env import SearchEnv
from agentgym.envs.search.judging import Judging
from agentgym.envs.search.modes import Simulating
from agentgym.envs.search.playing import Mode, ModePart

__all__ = ["Deciding", "Judging", "Mode", "ModePart", "SearchEnv", "Simulating"]
