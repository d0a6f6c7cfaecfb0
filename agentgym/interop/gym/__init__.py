"""Any `gymnasium.Env` with discrete, text or small numeric spaces, as an environment with one tool."""

from agentgym.interop.gym.env import GymEnv

__all__ = ["GymEnv"]
