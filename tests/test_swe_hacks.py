"""Cheating does not pay: every known way of scoring without mending scores 0, where mending scores 1."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agentgym.checks.play import assistant_call
from agentgym.envs.swe import SWEEnv
from agentgym.envs.swe.grading import Grader, Verdict, signs
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.sandboxes import Sandboxes
from agentgym.messages import ToolCall, text_of
from agentgym.steps import StepResult
from tests.swe_cases import CHEATS, FILES, MENDED, REPOSITORY, RIGHT, SIGNS, WRONG, write_tasks

TEST_LIMITS = WORK_LIMITS.but(wall_s=30.0, cpu_s=30.0)


def verdict(worked: dict[str, bytes]) -> Verdict:
    return Grader(Sandboxes("auto", False, WORK_LIMITS, TEST_LIMITS)).grade(REPOSITORY, worked)


def test_the_honest_solution_passes():
    found = verdict(dict(MENDED))
    assert (found.passed, found.mended, found.tampered, found.error) == (True, 1.0, (), "")
    assert found.canaries >= 6


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_scores_nothing(name: str):
    found = verdict(CHEATS[name]())
    assert not found.passed
    if name in SIGNS:
        assert found.tampered, "only a canary or a contradiction can find this out"
        assert found.mended == 0.0


@pytest.mark.parametrize("name", CHEATS)
def test_a_cheat_that_no_filter_stopped_is_stopped_by_the_runner(name: str):
    grader = Grader(Sandboxes("auto", False, WORK_LIMITS, TEST_LIMITS))
    decisive, calibration = REPOSITORY.instance.fail_to_pass, grader.calibrate(REPOSITORY)
    tree = {**CHEATS[name](), **REPOSITORY.restored}
    found = grader.run(REPOSITORY, tree, REPOSITORY.hidden, calibration.drawn(decisive), calibration.manner)
    assert signs(found) or found.error or not found.passed(decisive)


BESIDE = [name for name, made in CHEATS.items() if made()["textkit/words.py"] == FILES["textkit/words.py"]]


@pytest.mark.parametrize("name", BESIDE)
def test_an_honest_solution_passes_beside_what_a_cheat_left(name: str):
    assert verdict({**CHEATS[name](), "textkit/words.py": RIGHT.encode()}).passed


def test_a_wrong_solution_is_not_accused():
    worse = WRONG.replace('text.split(" ")', 'text.split(",")')
    found = verdict({**FILES, "textkit/words.py": worse.encode()})
    assert (found.passed, found.tampered) == (False, ())


@pytest.fixture
def env(tmp_path: Path) -> Any:
    made = SWEEnv(file=write_tasks(tmp_path))
    made.reset(seed=0)
    yield made
    made.close()


def do(env: SWEEnv, name: str, **arguments: Any) -> StepResult:
    return env.step(assistant_call(ToolCall(name, arguments)))


def test_git_settings_of_the_agent_are_never_executed(env: SWEEnv, tmp_path: Path):
    """`git status`, `git diff` or `git add` in such a tree would run the agent's commands."""
    marker = tmp_path / "executed"
    settings = f"[core]\n\tfsmonitor = touch {marker}\n[diff]\n\texternal = touch {marker}\n"
    settings += f'[filter "x"]\n\tclean = touch {marker}\n'
    do(env, "create", path=".gitattributes", content="* filter=x\n")
    do(env, "create", path=".git/config", content=settings)
    do(env, "create", path=".git/hooks/post-checkout", content=f"#!/bin/sh\ntouch {marker}\n")
    result = do(env, "submit")
    assert result.terminated
    assert not result.info["is_success"]
    assert not marker.exists()


def test_tampering_is_told_and_earns_nothing_at_all(env: SWEEnv):
    source = "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None"
    results = [do(env, "insert", path="textkit/words.py", line=0, text=source), do(env, "run_tests"), do(env, "submit")]
    assert sum(result.reward for result in results) == 0.0
    assert results[-1].info["tampered"] is True
    assert "6 passed" in text_of(results[1].observation[0])


def test_links_and_pipes_are_no_files_and_stop_nothing(env: SWEEnv):
    do(env, "run", command="ln -s /etc/passwd textkit/linked.py; mkfifo textkit/pipe.py; ln -s / root")
    do(env, "edit", path="textkit/words.py", old='text.split(" ")', new="text.split()")
    result = do(env, "submit")
    assert result.info["is_success"]
    assert result.info["dropped"] == {}


def test_what_runs_on_in_the_background_is_gone_before_grading(env: SWEEnv):
    # Only in the workspace: a test must do no harm even where a sandbox fails to hold.
    loop = "while true; do for f in $PWD/tests/*.py; do echo 'def test_words_of_many_blanks(): pass' > $f; done; done"
    do(env, "run", command=f"setsid bash -c '{loop}' >/dev/null 2>&1 & echo started")
    result = do(env, "submit")
    assert not result.info["is_success"]
    assert result.info["tampered"] is False


def test_programs_and_settings_of_the_shell_do_not_reach_the_grader(env: SWEEnv):
    fake = "#!/bin/sh\necho 9 passed\nexit 0\n"
    for name in ("python3", "python", "bash", "env"):
        do(env, "create", path=f"bin/{name}", content=fake)
    do(env, "create", path=".bashrc", content='export BASH_ENV=/work/.bashrc PATH="/work/bin:$PATH" LD_PRELOAD=/x.so\n')
    do(env, "run", command="chmod +x bin/*; cp .bashrc ~/.bashrc; export PATH=$PWD/bin:$PATH; true")
    result = do(env, "submit")
    assert not result.info["is_success"]


def test_a_full_disk_is_told_and_the_work_still_graded(env: SWEEnv):
    do(env, "edit", path="textkit/words.py", old='text.split(" ")', new="text.split()")
    do(env, "run", command="head -c 2000000000 /dev/zero > filler; rm -f filler; true")
    assert do(env, "submit").info["is_success"]


def test_the_mended_sources_and_hidden_tests_are_nowhere_in_the_sandbox(env: SWEEnv):
    command = "grep -rl 'test_words_of_many_blanks\\|return text.split()' . /tmp $HOME /var/tmp 2>/dev/null; ls -a"
    told = text_of(do(env, "run", command=command).observation[0])
    assert ".git" not in told.split()
    assert "words.py" not in told


def test_packages_of_the_host_are_not_there(env: SWEEnv):
    told = text_of(do(env, "run", command="python3 -c 'import pytest; import gymnasium'").observation[0])
    assert "No module named 'gymnasium'" in told


def test_the_host_keeps_its_own_environment(env: SWEEnv, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AGENTGYM_TEST_SECRET", "s3cret")
    assert "s3cret" in os.environ.values()
    assert "s3cret" not in text_of(do(env, "run", command="env; cat /proc/*/environ 2>/dev/null").observation[0])
