"""Tasks on the bundled web sites: families of tasks, graded by the final state of the site's database."""

from agentgym.tasks.web.source import WebTasks

__all__ = ["WebTasks"]
