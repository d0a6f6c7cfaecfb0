"""Games of TextArena for one player, or for two with an opponent in the other seat."""

from agentgym.interop.textarena.env import TextArenaEnv
from agentgym.interop.textarena.opponents import Opponent, RandomMoves

__all__ = ["Opponent", "RandomMoves", "TextArenaEnv"]
