"""Task folders of Harbor and Terminal-Bench: instruction, Dockerfile, tests and solution."""

from agentgym.tasks.folders.source import FolderTasks
from agentgym.tasks.folders.spec import AgentSpec, Health, MachineNeeds, TaskFolder, VerifierSpec

__all__ = ["AgentSpec", "FolderTasks", "Health", "MachineNeeds", "TaskFolder", "VerifierSpec"]
