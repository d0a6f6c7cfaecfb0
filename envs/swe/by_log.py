"""Grading by the log of a test command, for instances that come with an image and tools of their own.

Weaker than `judge`: the tests run once, in their true form, in files that the code under test can read, and what is
printed can be imitated by it. Exact ids, fresh sandboxes, restored tests and the filter for changes stand in the way,
changed tests do not; `Verdict.manner` says so, and `Verdict.unchanged` names every test that decides.
"""

from __future__ import annotations

import shlex

from agentgym.envs.swe.judge import TestRun
from agentgym.envs.swe.repository import Repository
from agentgym.tasks.swe.instance import PREFIX_IDS, TEST_TARGETS
from agentgym.tasks.swe.logs import Status, look_up, parse_log
from agentgym.tools.sandbox import Ended, Limits, Sandbox

MANNER = "log"
LOG_BYTES = 16_000_000
FINE = (Status.PASSED, Status.XFAILED, Status.SKIPPED)
"""What may become of a test that passed before."""


def run_by_log(sandbox: Sandbox, repository: Repository, limits: Limits) -> TestRun:
    """Run an instance's test command in a sandbox whose workspace holds the tree to grade."""
    instance = repository.instance
    targets = [str(target) for target in instance.meta.get(TEST_TARGETS, ())]
    argv = [*instance.test_command, *targets]
    if len(instance.test_command) == 1 and " " in instance.test_command[0]:
        argv = ["bash", "-c", " ".join([instance.test_command[0], *map(shlex.quote, targets)])]
    result = sandbox.exec(argv, limits=limits.but(output_bytes=LOG_BYTES))
    results = parse_log(instance.parser, f"{result.out}\n{result.err}", root=instance.workdir)
    cut = frozenset(instance.meta.get(PREFIX_IDS, ()))
    statuses = {
        test: status.value
        for test in (*instance.fail_to_pass, *instance.pass_to_pass)
        if (status := look_up(results, test, prefix=test in cut)) is not None
    }
    error = "" if result.ended is Ended.EXITED else f"the tests ran into a limit: {result.ended.value}"
    return TestRun(statuses, error=error)
