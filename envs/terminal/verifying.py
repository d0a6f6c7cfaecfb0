"""The verdict on a machine: the task's own tests, which come onto it only when the agent's work is over."""

from __future__ import annotations

import json
import math
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentgym.base.errors import BrokenTask, InfrastructureError, UsageError
from agentgym.envs.terminal.machines import TaskMachine, verifiers_machine
from agentgym.tasks.folders import TaskFolder
from agentgym.tasks.folders.spec import REWARD_FILES, TESTS_PLACE
from agentgym.tools.terminal import Machine, MachineLost
from agentgym.tools.terminal.building import packed, packed_files

Leftovers = Literal["keep", "kill"]
_REWARD = "reward"
_MAX_REWARD_BYTES = 100_000
_PREPARE_S = 60.0
_NOT_RUN = (126, 127)
"""Exit codes of a script that could not be started."""
_OUTPUT_CHARS = 400


@dataclass(frozen=True)
class TerminalVerdict:
    """The result of the tests."""

    reward: float
    rewards: Mapping[str, float] = field(default_factory=dict)
    """All rewards that they wrote, by name."""
    left_running: int = 0
    """Number of the agent's programs that still ran."""
    note: str = ""


class NoVerdict(Exception):
    """The tests ended without a verdict; the message says how."""


def judge(folder: TaskFolder, worked: TaskMachine, leftovers: Leftovers) -> TerminalVerdict:
    """Return the verdict on the machine of an agent.

    If the tests give no verdict, they run on an untouched machine. If they give one there, the agent broke them, and
    the reward is 0; otherwise it is the infrastructure's fault.

    Raises:
        InfrastructureError: The tests give no verdict on an untouched machine either, or Docker fails.
    """
    left_running = _count_leftovers(worked, leftovers)
    try:
        return _verdict(folder, worked, left_running)
    except (NoVerdict, MachineLost) as first:
        _check_untouched(folder, worked, first)
    try:  # once more: the first failure may have been temporary
        return _verdict(folder, worked, left_running)
    except (NoVerdict, MachineLost) as second:
        return TerminalVerdict(
            0.0, left_running=left_running, note=f"the tests give no verdict on the agent's machine: {second}"
        )


def _check_untouched(folder: TaskFolder, worked: TaskMachine, first: Exception) -> None:
    fresh = verifiers_machine(folder, worked.machine.daemon)
    try:
        _run_tests(folder, fresh)
    except (NoVerdict, MachineLost) as error:
        raise InfrastructureError(
            f"the tests of task {folder.name!r} give no verdict, not even on an untouched machine: {error} "
            f"(before: {first})"
        ) from error
    finally:
        fresh.close()


def _count_leftovers(worked: TaskMachine, leftovers: Leftovers) -> int:
    try:
        programs = worked.machine.left_running()
        if programs and leftovers == "kill":
            worked.machine.kill_left()
        return len(programs)
    except MachineLost:
        return 0


def _verdict(folder: TaskFolder, worked: TaskMachine, left_running: int) -> TerminalVerdict:
    if folder.verifier.machine is None:
        return _scored(folder, _run_tests(folder, worked), left_running)
    own = verifiers_machine(folder, worked.machine.daemon)
    try:
        for place in folder.verifier.artifacts:
            _copy(worked.machine, own.machine, place)
        return _scored(folder, _run_tests(folder, own), left_running)
    finally:
        own.close()


def _copy(source: Machine, target: Machine, place: str) -> None:
    """Copy a file or folder to the same place of another machine, if there is one."""
    archive = source.take(place)
    if archive is not None:
        above = posixpath.dirname(place)
        target.run(["mkdir", "-p", above], wall_s=_PREPARE_S, user="0", cwd="/")
        target.put(archive, above)


def _scored(folder: TaskFolder, rewards: Mapping[str, float], left_running: int) -> TerminalVerdict:
    reward = rewards.get(_REWARD, next(iter(rewards.values())) if len(rewards) == 1 else math.nan)
    if not 0.0 <= reward <= 1.0:
        raise BrokenTask(
            f"the tests of task {folder.name!r} give {dict(rewards)!r:.200}; needed is one number from 0 to 1, "
            f"or one called {_REWARD!r}"
        )
    return TerminalVerdict(reward, rewards, left_running)


def _run_tests(folder: TaskFolder, place: TaskMachine) -> Mapping[str, float]:
    """Put the tests onto a machine, run them and return the rewards."""
    verifier, machine = folder.verifier, place.machine
    script = f"{TESTS_PLACE}/{verifier.script}"
    _clear(place, tests=not verifier.owns_tests)
    if not verifier.owns_tests:
        machine.put(_tests(folder))
    elif machine.read(script, _MAX_REWARD_BYTES) is None:
        raise NoVerdict(f"the image of the tests has no {script}")
    ended = machine.run(
        [script] if verifier.verdict == "file" else ["bash", script],
        wall_s=verifier.timeout_s,
        user=verifier.user,
        cwd=place.workdir,
        env=verifier.environment,
    )
    output = (ended.stdout + ended.stderr).decode("utf-8", "replace").strip()[-_OUTPUT_CHARS:]
    if ended.timed_out:
        raise NoVerdict(f"{verifier.script} took more than {verifier.timeout_s:g} s")
    if verifier.verdict == "exit_code":
        if ended.exit_code in _NOT_RUN:
            raise NoVerdict(f"{verifier.script} ended with exit code {ended.exit_code}: {output}")
        return {_REWARD: float(ended.exit_code == 0)}
    return _read_rewards(machine, f"{verifier.script} ended with exit code {ended.exit_code}: {output}")


def _clear(place: TaskMachine, *, tests: bool) -> None:
    """Remove files of the agent that could be mistaken for rewards or tests."""
    folder = posixpath.dirname(REWARD_FILES[0])
    removed = [folder] if place.has_tests or not tests else [folder, TESTS_PLACE]
    command = f"rm -rf {' '.join(removed)} && mkdir -p {folder} {TESTS_PLACE} && chmod 777 {folder}"
    done = place.machine.run(["sh", "-c", command], wall_s=_PREPARE_S, user="0", cwd="/")
    if done.exit_code != 0:
        raise NoVerdict(f"the machine cannot be prepared: {done.stderr.decode('utf-8', 'replace').strip()[-200:]}")


def _tests(folder: TaskFolder) -> bytes:
    if folder.tests_extra:
        files = {path.name: path.read_bytes() for path in folder.tests_extra}
        files |= {
            str(path.relative_to(folder.tests)): path.read_bytes()
            for path in sorted(folder.tests.rglob("*"))
            if path.is_file()
        }
        return packed_files({f"{TESTS_PLACE[1:]}/{name}": content for name, content in files.items()})
    return packed(folder.tests, under=TESTS_PLACE[1:], executable=frozenset({folder.verifier.script}))


def _read_rewards(machine: Machine, how: str) -> Mapping[str, float]:
    for place in REWARD_FILES:
        try:
            content = machine.read(place, _MAX_REWARD_BYTES)
        except UsageError as error:
            raise NoVerdict(str(error)) from error
        if content is not None:
            return _parsed(content, is_json=place.endswith(".json"))
    raise NoVerdict(f"there is no {' and no '.join(REWARD_FILES)}; {how}")


def _parsed(content: bytes, *, is_json: bool) -> Mapping[str, float]:
    """Return the numbers of a reward file."""
    try:
        data: Any = json.loads(content) if is_json else float(content)
    except (ValueError, RecursionError) as error:
        raise NoVerdict(f"the reward file holds {content[:60]!r}, not a reward") from error
    rewards = data if isinstance(data, dict) else {_REWARD: data}
    if not rewards or not all(isinstance(value, int | float) and math.isfinite(value) for value in rewards.values()):
        raise NoVerdict(f"the reward file holds {content[:60]!r}, not a reward")
    return {str(name): float(value) for name, value in rewards.items()}
