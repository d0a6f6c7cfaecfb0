"""Tasks that are folders: instruction, Dockerfile, tests and solution, as Harbor and Terminal-Bench have them."""

from agentgym.tasks.folders.source import FolderTasks
from agentgym.tasks.folders.spec import AgentSpec, Health, MachineNeeds, TaskFolder, VerifierSpec

__all__ = ["AgentSpec", "FolderTasks", "Health", "MachineNeeds", "TaskFolder", "VerifierSpec"]
