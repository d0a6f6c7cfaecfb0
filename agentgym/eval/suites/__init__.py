"""Suites: pinned tasks of one or several environments, with everything that decides how they are played.

A suite is two files: `NAME.yaml` (environments, arguments, limits, attempts) and `NAME.pins.json` (the ids of its tasks
with their content hashes, which `agentgym tasks pin` writes). `load_suite` reads both, without making an environment.
"""

from agentgym.eval.suites.loading import bundled_suites, load_suite
from agentgym.eval.suites.suite import Suite, SuiteEntry, SuiteId, comparable

__all__ = ["Suite", "SuiteEntry", "SuiteId", "bundled_suites", "comparable", "load_suite"]
