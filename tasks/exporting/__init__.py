"""Tasks of our environments, written as Harbor task folders that need nothing of this package."""

from agentgym.tasks.exporting.export import ANSWERS, HarborFolder, HasHarborFolders, here_document, packed_tree

__all__ = ["ANSWERS", "HarborFolder", "HasHarborFolders", "here_document", "packed_tree"]
