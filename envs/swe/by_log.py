"""Grading by the log of a test command, for instances with tools of their own: an image, or a Python environment.

Weaker than `judge`: the tests run once, in their true form, in files that the code under test can read, and that code
can imitate what they print. Exact ids, fresh sandboxes, restored tests and the filter for changes make cheating harder;
changed tests are not used. `Verdict.manner` says so, and `Verdict.unchanged` names every test that decides.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace

from agentgym.base.errors import BrokenTask
from agentgym.envs.swe.judge import TestRun
from agentgym.envs.swe.remembered import BoundedCache
from agentgym.envs.swe.repository import Repository
from agentgym.tasks.swe.instance import PREFIX_IDS, TEST_TARGETS
from agentgym.tasks.swe.logs import Status, look_up, parse_log
from agentgym.tools.sandbox import Ended, Sandbox, SandboxLimits

MANNER = "log"
LOG_BYTES = 16_000_000
FINE = (Status.PASSED, Status.XFAILED, Status.SKIPPED)
"""Acceptable statuses of a test that passed before."""
_FINE_VALUES = tuple(status.value for status in FINE)
_DETAIL_CHARS = 300


_ON_GOLD: BoundedCache[Repository] = BoundedCache(512)


def as_on_gold(repository: Repository, run: Callable[[Mapping[str, bytes]], TestRun]) -> Repository:
    """Return an instance that requires only the tests that pass on its gold patch here, measured once.

    An environment set up by hand may differ from the one that the instance was made in.

    Args:
        repository: The instance.
        run: Runs its tests on a tree.

    Raises:
        BrokenTask: A test that decides does not pass on the gold patch.
    """

    def measured() -> Repository:
        instance = repository.instance
        gold = run(repository.to_grade(repository.gold))
        lost = [test for test in instance.fail_to_pass if gold.statuses.get(test) != Status.PASSED.value]
        if lost or gold.error:
            reason = gold.error or f"{lost[0]} {gold.statuses.get(lost[0], 'is not in the log')}"
            raise BrokenTask(
                f"the tests of {instance.id!r} do not pass on its gold patch in {instance.python!r}, so it cannot be "
                f"graded: {reason}"
            )
        passing = tuple(test for test in instance.pass_to_pass if gold.statuses.get(test) in _FINE_VALUES)
        return replace(repository, instance=replace(instance, pass_to_pass=passing))

    return _ON_GOLD.get(repository.key, measured)


def run_by_log(sandbox: Sandbox, repository: Repository, limits: SandboxLimits) -> TestRun:
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
    if not results and not error:
        error = f"no test was reported: {(result.err or result.out).strip()[-_DETAIL_CHARS:]}"
    return TestRun(statuses, error=error)
