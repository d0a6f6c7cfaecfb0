"""Live sessions: state between cells, errors, exits, time limits, restarts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentgym.base.errors import ToolError, UsageError
from agentgym.tools.sandbox import Ended, Sandbox, SandboxTier
from tests.tools.sandbox.tiers import SPEC, open_on

pytestmark = pytest.mark.real

LIMITS = SPEC.limits


@pytest.fixture(scope="module")
def sandbox(tier: SandboxTier) -> Iterator[Sandbox]:
    with open_on(tier) as opened:
        yield opened


def test_a_python_session_keeps_its_state_and_shows_the_last_expression(sandbox: Sandbox) -> None:
    with sandbox.python() as session, sandbox.python() as other:
        assert session.run("import math\nx = 3").out == ""
        assert session.run("print('a')\nmath.sqrt(x + 1)").out == "a\n2.0\n"
        assert session.run("None").out == ""
        assert "NameError" in other.run("x").err
    with pytest.raises(UsageError, match="closed"):
        session.run("1")


def test_exceptions_exits_and_syntax_errors_leave_the_session_alive(sandbox: Sandbox) -> None:
    with sandbox.python() as session:
        session.run("x = 1\ndef f():\n    raise KeyError('k')")
        result = session.run("f()")
        assert result.exit_code == 1
        assert "raise KeyError('k')" in result.err
        assert "agentgym" not in result.err
        assert session.run("import sys; sys.exit(4)").exit_code == 4
        result = session.run("print('no')\nif:")
        assert (result.out, "SyntaxError" in result.err) == ("", True)
        assert session.alive
        assert session.run("x").out == "1\n"


def test_a_session_that_exits_is_restarted_with_a_note(sandbox: Sandbox) -> None:
    with sandbox.python() as session:
        result = session.run("import os; x = 1; os._exit(5)")
        assert (result.exit_code, session.alive) == (5, False)
        result = session.run("'x' in globals()")
        assert result.out == "False\n"
        assert "restarted" in result.err
        assert session.run("1").err == ""


def test_a_cell_that_exceeds_its_time_ends_the_session(sandbox: Sandbox) -> None:
    with sandbox.python() as session:
        result = session.run("print('begun')\nwhile True: pass", limits=LIMITS.but(wall_s=0.5))
        assert (result.ended, result.out, session.alive) == (Ended.TIMEOUT, "begun\n", False)
        assert session.run("2").out == "2\n"


def test_every_cell_has_its_own_cpu_limit(sandbox: Sandbox) -> None:
    with sandbox.python(LIMITS.but(cpu_s=1)) as session:
        for _ in range(4):
            assert session.run("import time\nt = time.process_time()\nwhile time.process_time() - t < 0.5: pass").ok
        assert session.run("while True: pass").ended is Ended.CPU


def test_a_bash_session_keeps_variables_folder_and_status_and_runs_any_text(sandbox: Sandbox) -> None:
    with sandbox.bash() as session:
        assert session.run("mkdir -p d && cd d; A='b c'; f() { echo \"f $1\"; }; false").exit_code == 1
        assert session.run('echo $? "$A" ${PWD##*/}; f 1').out == "1 b c d\nf 1\n"
        assert session.run("cat <<'E'\nline 'one'\n$x\nE\necho \"two\n three\"").out == "line 'one'\n$x\ntwo\n three\n"
        assert session.run("if then").exit_code == 2
        with pytest.raises(ToolError, match="NUL"):
            session.run("echo a\0b")
        result = session.run("exit 7")
        assert (result.exit_code, session.alive) == (7, False)
        assert session.run('echo "[$A]"').out == "[]\n"


def test_background_processes_live_as_long_as_their_session(sandbox: Sandbox) -> None:
    session = sandbox.bash()
    session.run("sleep 300 & echo $! > pid")
    assert session.run("kill -0 $(cat pid) && echo there").out == "there\n"
    session.close()
    assert sandbox.exec(["bash", "-c", "kill -0 $(cat pid) 2>/dev/null || echo gone"]).out == "gone\n"


def test_the_output_and_reply_of_each_cell_are_separate_and_bounded(sandbox: Sandbox) -> None:
    with sandbox.python() as session:
        result = session.run("print('x' * 100_000)", limits=LIMITS.but(output_bytes=1000))
        assert result.cut == (99_001, 0)
        assert len(result.stdout) < 1100
        result = session.run("print('y'); import os; _ = os.write(int(os.environ['AGENTGYM_REPLY_FD']), b'r')")
        assert (result.out, result.reply) == ("y\n", b"r")
        assert session.run("1").reply == b""
