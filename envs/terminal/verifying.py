"""The verdict on a machine: the task's own tests, which come onto it only when the agent's work is over."""

from __future__ import annotations

import json
import math
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentgym.envs.terminal.machines import TaskMachine, verifiers_machine
from agentgym.errors import BrokenTask, InfrastructureError, UsageError
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
_SAID_CHARS = 400


@dataclass(frozen=True)
class Verdict:
    """What the tests say."""

    reward: float
    rewards: Mapping[str, float] = field(default_factory=dict)
    """All numbers that they gave."""
    left_running: int = 0
    """Programs of the agent that still ran."""
    note: str = ""


class NoVerdict(Exception):
    """The tests ended without a verdict; the message says how."""


def judge(folder: TaskFolder, worked: TaskMachine, leftovers: Leftovers) -> Verdict:
    """Return the verdict on the machine of an agent.

    Tests that give none are the infrastructure's fault, unless they do give one on a machine that no agent has touched:
    then the agent broke them, which is worth 0.

    Raises:
        InfrastructureError: The tests give no verdict on an untouched machine either, or Docker fails.
    """
    left = _left(worked, leftovers)
    try:
        return _verdict(folder, worked, left)
    except (NoVerdict, MachineLost) as first:
        _check_untouched(folder, worked, first)
    try:  # once more, since what broke them may be over
        return _verdict(folder, worked, left)
    except (NoVerdict, MachineLost) as second:
        return Verdict(0.0, left_running=left, note=f"the tests give no verdict on what the agent left: {second}")


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


def _left(worked: TaskMachine, leftovers: Leftovers) -> int:
    try:
        left = worked.machine.left_running()
        if left and leftovers == "kill":
            worked.machine.kill_left()
        return len(left)
    except MachineLost:
        return 0


def _verdict(folder: TaskFolder, worked: TaskMachine, left: int) -> Verdict:
    if folder.verifier.machine is None:
        return _scored(folder, _run_tests(folder, worked), left)
    own = verifiers_machine(folder, worked.machine.daemon)
    try:
        for place in folder.verifier.artifacts:
            _copy(worked.machine, own.machine, place)
        return _scored(folder, _run_tests(folder, own), left)
    finally:
        own.close()


def _copy(source: Machine, target: Machine, place: str) -> None:
    """Copy a file or folder to the same place of another machine, if there is one."""
    archive = source.take(place)
    if archive is not None:
        above = posixpath.dirname(place)
        target.run(["mkdir", "-p", above], wall_s=_PREPARE_S, user="0", cwd="/")
        target.put(archive, above)


def _scored(folder: TaskFolder, rewards: Mapping[str, float], left: int) -> Verdict:
    reward = rewards.get(_REWARD, next(iter(rewards.values())) if len(rewards) == 1 else math.nan)
    if not 0.0 <= reward <= 1.0:
        raise BrokenTask(
            f"the tests of task {folder.name!r} give {dict(rewards)!r:.200}; needed is one number from 0 to 1, "
            f"or one called {_REWARD!r}"
        )
    return Verdict(reward, rewards, left)


def _run_tests(folder: TaskFolder, place: TaskMachine) -> Mapping[str, float]:
    """Put the tests onto a machine, run them and return what they say."""
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
    said = (ended.stdout + ended.stderr).decode("utf-8", "replace").strip()[-_SAID_CHARS:]
    if ended.timed_out:
        raise NoVerdict(f"{verifier.script} took more than {verifier.timeout_s:g} s")
    if verifier.verdict == "exit_code":
        if ended.exit_code in _NOT_RUN:
            raise NoVerdict(f"{verifier.script} ended with exit code {ended.exit_code}: {said}")
        return {_REWARD: float(ended.exit_code == 0)}
    return _read_rewards(machine, f"{verifier.script} ended with exit code {ended.exit_code}: {said}")


def _clear(place: TaskMachine, *, tests: bool) -> None:
    """Remove what could be taken for a verdict or for tests, such as files that the agent put there."""
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
        found: Any = json.loads(content) if is_json else float(content)
    except (ValueError, RecursionError) as error:
        raise NoVerdict(f"the reward file holds {content[:60]!r}, which is no reward") from error
    rewards = found if isinstance(found, dict) else {_REWARD: found}
    if not rewards or not all(isinstance(value, int | float) and math.isfinite(value) for value in rewards.values()):
        raise NoVerdict(f"the reward file holds {content[:60]!r}, which is no reward")
    return {str(name): float(value) for name, value in rewards.items()}
