"""Former place of names in `agentgym.outputs`; import them from there."""

from agentgym.outputs import check_file, check_folder, held

__all__ = ["check_file", "check_folder", "held"]
