"""Exports tasks as Harbor task folders that do not need this package."""

from agentgym.tasks.exporting.export import ANSWERS, HarborFolder, HasHarborFolders, here_document, packed_tree

__all__ = ["ANSWERS", "HarborFolder", "HasHarborFolders", "here_document", "packed_tree"]
