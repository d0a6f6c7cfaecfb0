"""The tasks of WebArena-Verified, from its package or from files in its form."""

from agentgym.tasks.webarena.source import WebArenaTasks, entry_of

__all__ = ["WebArenaTasks", "entry_of"]
