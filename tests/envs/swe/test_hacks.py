"""Cheating does not pay: every known cheat scores 0, where an honest solution scores 1."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agentgym.check.play import assistant_call
from agentgym.core.engine.steps import StepResult
from agentgym.core.messages import ToolCall, text_of
from agentgym.envs.swe import SWEEnv
from agentgym.envs.swe.draws import MIN_CHANGED, PROCESSES
from agentgym.envs.swe.filtering import FilteredTree
from agentgym.envs.swe.grading import SWEGrader, SWEVerdict
from agentgym.envs.swe.options import WORK_LIMITS
from agentgym.envs.swe.sandboxes import Sandboxes
from agentgym.tools.sandbox import Sandbox
from tests.envs.swe.payloads import PAYLOADS, with_payload
from tests.rows import each_row
from tests.swe_cases import CHEATS, FILES, MENDED, REPOSITORY, RIGHT, SIGNS, write_tasks

pytestmark = pytest.mark.real

TEST_LIMITS = WORK_LIMITS.but(wall_s=30.0, cpu_s=30.0)


def grader() -> SWEGrader:
    return SWEGrader(Sandboxes("auto", False, WORK_LIMITS, TEST_LIMITS))


def verdict(worked: dict[str, bytes]) -> SWEVerdict:
    return grader().grade(REPOSITORY, worked)


def test_honest_solution_passes():
    outcome = verdict(dict(MENDED))
    assert (outcome.passed, outcome.mended, outcome.tampered, outcome.error) == (True, 1.0, (), "")
    assert outcome.changed_tests >= 20
    assert outcome.unchanged == ()


@each_row("name", CHEATS)
def test_cheat_scores_nothing_with_or_without_the_filter(name: str):
    outcome = verdict(CHEATS[name])
    assert not outcome.passed
    if name in SIGNS:  # only a changed test or a contradiction can reveal these
        assert (bool(outcome.tampered), outcome.mended) == (True, 0.0)
    unfiltered = FilteredTree(CHEATS[name], tuple(CHEATS[name]), {})  # only the tests are restored
    outcome = grader().judge(REPOSITORY, unfiltered)
    assert (outcome.passed, outcome.mended) == (False, 0.0)


@each_row("name", PAYLOADS)
def test_code_that_sees_all_of_one_process_scores_nothing(name: str):
    outcome = verdict(with_payload(FILES, PAYLOADS[name]))
    assert not outcome.passed
    if name in ("swallow all", "signs for all"):
        assert (bool(outcome.tampered), outcome.mended) == (True, 0.0)
    # A test that passes by luck in all processes is still paid for, but rarely.
    assert outcome.mended < 1.0


def test_no_process_holds_two_forms_of_a_test_or_reveals_which_is_true(monkeypatch: pytest.MonkeyPatch):
    """The payload fixes the code, and records every text and every test in the process."""
    processes = spied_on(RIGHT + dedent(SPY), monkeypatch)
    assert len(processes) == PROCESSES
    for names, blanks, paths, sources in processes:
        assert len(names) == len(set(names))
        assert len(blanks) == 1
        assert sources == 0
        assert set(paths) <= {"tests/test_words.py", "tests/test_other.py"}
    assert len({blanks[0] for _, blanks, _, _ in processes}) > MIN_CHANGED
    assert len({tuple(names) for names, _, _, _ in processes}) == PROCESSES


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
    """Return the records of a spying source from each process of a grading that passes."""
    records: list[Any] = []
    execute = Sandbox.exec

    def noting(self: Sandbox, *arguments: Any, **more: Any) -> Any:
        result = execute(self, *arguments, **more)
        records.append(json.loads(self.read("spied.json")))
        return result

    grader().calibrate(REPOSITORY)
    monkeypatch.setattr(Sandbox, "exec", noting)
    assert verdict({**FILES, "textkit/words.py": source.encode()}).passed
    return records


TRACES = [name for name, cheat in CHEATS.items() if cheat["textkit/words.py"] == FILES["textkit/words.py"]]


@each_row("name", TRACES)
def test_honest_solution_passes_despite_traces_of_a_cheat(name: str):
    assert verdict({**CHEATS[name], "textkit/words.py": RIGHT.encode()}).passed


@pytest.fixture
def env(tmp_path: Path) -> Any:
    environment = SWEEnv(file=write_tasks(tmp_path))
    environment.reset(seed=0)
    yield environment
    environment.close()


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
    assert (result.terminated, result.info["is_success"], marker.exists()) == (True, False, False)


def test_tampering_is_reported_and_earns_nothing(env: SWEEnv):
    source = "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None"
    results = [do(env, "insert", path="textkit/words.py", line=0, text=source), do(env, "run_tests"), do(env, "submit")]
    assert sum(result.reward for result in results) == 0.0
    assert results[-1].info["tampered"] is True
    assert "6 passed" in text_of(results[1].observation[0])


def test_links_and_pipes_are_ignored(env: SWEEnv):
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


def test_programs_and_shell_settings_do_not_reach_the_grader(env: SWEEnv):
    fake = "#!/bin/sh\necho 9 passed\nexit 0\n"
    for name in ("python3", "python", "bash", "env"):
        do(env, "create", path=f"bin/{name}", content=fake)
    do(env, "create", path=".bashrc", content='export BASH_ENV=/work/.bashrc PATH="/work/bin:$PATH" LD_PRELOAD=/x.so\n')
    do(env, "run", command="chmod +x bin/*; cp .bashrc ~/.bashrc; export PATH=$PWD/bin:$PATH; true")
    result = do(env, "submit")
    assert not result.info["is_success"]


def test_sandbox_has_no_gold_sources_or_hidden_tests(env: SWEEnv):
    command = "grep -rl 'test_words_of_many_blanks\\|return text.split()' . /tmp $HOME /var/tmp 2>/dev/null; ls -a"
    output = text_of(do(env, "run", command=command).observation[0])
    assert "words.py" not in output
