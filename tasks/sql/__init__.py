"""Procedural SQL tasks: domains, generated databases, question families with gold SQL, and splits."""

from agentgym.tasks.sql.database import ENGINE_KEY, database_for, generate_database
from agentgym.tasks.sql.source import SQLTasks

__all__ = ["ENGINE_KEY", "SQLTasks", "database_for", "generate_database"]
