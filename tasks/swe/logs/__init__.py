"""Reads test results from the output of test tools: `parse_log("pytest", text) -> {test id: Status}`.

A log is only as honest as the process that printed it: graders must not rely on it alone.
"""

from agentgym.tasks.swe.logs.parse import has_parser, parse_log, parser_names, resolve_parser
from agentgym.tasks.swe.logs.status import Status, junit_id, look_up, without_timing

__all__ = [
    "Status",
    "has_parser",
    "junit_id",
    "look_up",
    "parse_log",
    "parser_names",
    "resolve_parser",
    "without_timing",
]
