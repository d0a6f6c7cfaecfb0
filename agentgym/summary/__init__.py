"""A policy's results over a set of trajectories (`summarize`), and how they are printed (`print_summary`)."""

from agentgym.summary.results import Figures, Rate, Summary, summarize, summarize_entries
from agentgym.summary.tables import MAX_TAGS, print_errors, print_summary

__all__ = ["MAX_TAGS", "Figures", "Rate", "Summary", "print_errors", "print_summary", "summarize", "summarize_entries"]
