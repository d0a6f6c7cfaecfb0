"""Cheating does not pay: every known way of scoring without mending scores 0, where mending scores 1."""

from __future__ import annotations

import json
import os
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agentgym.checks.play import assistant_call
from agentgym.engine.steps import StepResult
from agentgym.envs.swe import SWEEnv
from agentgym.envs.swe.draws import MIN_CHANGED, PROCESSES
from agentgym.envs.swe.filtering import FilteredTree
from agentgym.envs.swe.grading import SWEGrader, SWEVerdict
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.sandboxes import Sandboxes
from agentgym.messages import ToolCall, text_of
from agentgym.tools.sandbox import Sandbox
from tests.envs.swe.payloads import PAYLOADS, with_payload
from tests.rows import each_row
from tests.swe_cases import CHEATS, FILES, MENDED, REPOSITORY, RIGHT, SIGNS, WRONG, write_tasks

pytestmark = pytest.mark.real

TEST_LIMITS = WORK_LIMITS.but(wall_s=30.0, cpu_s=30.0)


def verdict(worked: dict[str, bytes]) -> SWEVerdict:
    return SWEGrader(Sandboxes("auto", False, WORK_LIMITS, TEST_LIMITS)).grade(REPOSITORY, worked)


def test_the_honest_solution_passes():
    outcome = verdict(dict(MENDED))
    assert (outcome.passed, outcome.mended, outcome.tampered, outcome.error) == (True, 1.0, (), "")
    assert outcome.changed_tests >= 20
    assert outcome.unchanged == ()


@each_row("name", CHEATS)
def test_a_cheat_scores_nothing(name: str):
    outcome = verdict(CHEATS[name]())
    assert not outcome.passed
    if name in SIGNS:
        assert outcome.tampered, "only a changed test or a contradiction can find this out"
        assert outcome.mended == 0.0


@each_row("name", CHEATS)
def test_a_cheat_that_no_filter_stopped_is_stopped_by_the_runner(name: str):
    outcome = unfiltered(CHEATS[name]())
    assert not outcome.passed
    assert outcome.mended == 0.0


def unfiltered(worked: dict[str, bytes]) -> SWEVerdict:
    """The verdict on a workspace of which everything counts, and only the tests are restored."""
    grader = SWEGrader(Sandboxes("auto", False, WORK_LIMITS, TEST_LIMITS))
    return grader.judge(REPOSITORY, FilteredTree(worked, tuple(path for path in worked), {}))


@each_row("name", PAYLOADS)
def test_code_that_sees_all_of_one_process_scores_nothing(name: str):
    outcome = verdict(with_payload(FILES, PAYLOADS[name]))
    assert not outcome.passed
    # What passes by luck in all processes but one is still paid in part; nearly always that is nothing.
    assert outcome.mended < 1.0


@each_row("name", ["swallow all", "signs for all"])
def test_code_that_swallows_failures_at_large_is_found_out(name: str):
    outcome = verdict(with_payload(FILES, PAYLOADS[name]))
    assert outcome.tampered
    assert outcome.mended == 0.0


def test_no_process_holds_a_test_in_two_forms_nor_anything_that_says_which_it_is(monkeypatch: pytest.MonkeyPatch):
    """A payload that mends the code and, from within, notes every text and every test that the process holds."""
    spied = RIGHT + dedent(SPY)
    seen = spied_on(spied, monkeypatch)
    assert len(seen) == PROCESSES
    for names, blanks, paths, sources in seen:
        assert len(names) == len(set(names))
        assert len(blanks) == 1
        assert sources == 0
        assert set(paths) <= {"tests/test_words.py", "tests/test_other.py"}
    assert len({blanks[0] for _, blanks, _, _ in seen}) > MIN_CHANGED
    assert len({tuple(names) for names, _, _, _ in seen}) == PROCESSES


SPY = """

def _spy():
    import gc, json, os, sys, types, linecache
    import _pytest.python

    run = _pytest.python.Function.runtest

    def runtest(self):
        codes = [one.__code__ for one in gc.get_objects()
                 if isinstance(one, types.FunctionType) and one.__name__.startswith("test")]
        wanted = [repr(code.co_consts) for code in codes if "a  bc " in code.co_consts]
        texts = [one for one in gc.get_objects() if isinstance(one, (list, dict)) and len(one) < 50]
        parts = (part for one in texts for part in (one.values() if isinstance(one, dict) else one))
        sources = sum(isinstance(part, str) and part.count("assert ") > 2 and "spied" not in part for part in parts)
        names = sorted(code.co_name for code in codes)
        paths = sorted({os.path.relpath(code.co_filename) for code in codes})
        with open("spied.json", "w") as file:
            json.dump([names, wanted, paths, sources], file)
        run(self)

    _pytest.python.Function.runtest = runtest


_spy()
"""


def spied_on(source: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What a source that takes notes has noted in each process of a grading that passes."""
    told: list[Any] = []
    execute = Sandbox.exec

    def noting(self: Sandbox, *arguments: Any, **more: Any) -> Any:
        result = execute(self, *arguments, **more)
        told.append(json.loads(self.read("spied.json")))
        return result

    grader = SWEGrader(Sandboxes("auto", False, WORK_LIMITS, TEST_LIMITS))
    grader.calibrate(REPOSITORY)
    monkeypatch.setattr(Sandbox, "exec", noting)
    assert grader.grade(REPOSITORY, {**FILES, "textkit/words.py": source.encode()}).passed
    return told


BESIDE = [name for name, made in CHEATS.items() if made()["textkit/words.py"] == FILES["textkit/words.py"]]


@each_row("name", BESIDE)
def test_an_honest_solution_passes_beside_what_a_cheat_left(name: str):
    assert verdict({**CHEATS[name](), "textkit/words.py": RIGHT.encode()}).passed


def test_a_wrong_solution_is_not_accused():
    worse = WRONG.replace('text.split(" ")', 'text.split(",")')
    outcome = verdict({**FILES, "textkit/words.py": worse.encode()})
    assert (outcome.passed, outcome.tampered) == (False, ())


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


def test_background_processes_are_gone_before_grading(env: SWEEnv):
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
