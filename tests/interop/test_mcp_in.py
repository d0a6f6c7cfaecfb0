"""MCP servers as the tools of an environment: a real server of the official SDK, over both transports."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the [mcp] extra")

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.check import run_checks
from agentgym.core.endings import Reason
from agentgym.core.messages import ToolCall, assistant, shown_pictures, text_of
from agentgym.interop.envs.mcp import McpConnection, McpServer, mcp_tools
from tests.interop.notes_env import SERVER, NotesEnv
from tests.interop.notes_server import PNG
from tests.interop.peers import run_page
from tests.rows import each_row
from tests.waiting import HANG_S, eventually, is_running

pytestmark = pytest.mark.real

ALL: Any = None
MARK = "server-of-the-tests-of-mcp"
"""Marks the programs that these tests start."""
CHECKS = ("makes", "deterministic", "solution-solves", "tool-schemas", "tool-mistakes", "close-twice", "nothing-left")
"""Quick checks that an adapter can break; all others pass too."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(SERVER), str(port)], stderr=subprocess.DEVNULL)
    assert eventually(lambda: answers(port))
    yield f"http://127.0.0.1:{port}/mcp"
    process.terminate()
    process.wait(HANG_S)


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def call(env: NotesEnv, tool: str, /, **arguments: Any) -> Any:
    return env.step(assistant("", [ToolCall(tool, arguments)]))


def test_an_environment_with_mcp_tools_passes_the_checks(url: str):
    report = run_checks("tests.interop.notes_env:NotesEnv", {"url": url}, only=CHECKS)
    assert report.passed
    assert len(report.rows) >= len(CHECKS)


def test_a_program_starts_and_ends_with_each_episode():
    env = NotesEnv(mark=MARK, dialect="native")
    for seed in range(2):
        env.reset(seed=seed)
        assert call(env, "titles").observation[0]["content"] == "apples, pears"
        call(env, "write", title="mine", text="1")
        assert is_running(MARK)
        result = call(env, "done")
        assert (result.terminated, result.reward) == (True, 0.0)
        assert eventually(lambda: not is_running(MARK))
    env.reset(seed=0)
    env.close()
    assert eventually(lambda: not is_running(MARK))


def test_schemas_are_unchanged_and_the_environment_keeps_its_own_tools(url: str):
    connection = McpConnection()
    listed = {tool.name: tool for tool in connection.open(McpServer(url=url))}
    [write] = mcp_tools(connection, McpServer(url=url, only=["write"], prefix="notes_"))
    connection.close()
    function = {"name": "notes_write", "description": "Write a note, over what was there."}
    assert write.schema["function"] == function | {"parameters": listed["write"].inputSchema}
    env = NotesEnv(url=url, dialect="native")
    info = env.reset(seed=0)[1]
    env.close()
    assert [schema["function"]["name"] for schema in info["tools"]] == ["done", "titles", "read", "write"]


def test_the_model_reads_errors_of_a_servers_tools_and_sees_pictures(url: str):
    env = NotesEnv(url=url, only=ALL, dialect="native")
    env.reset(seed=0)
    unknown, wrong = call(env, "read", title="plums"), call(env, "read", name="plums")
    [message] = call(env, "picture").observation
    env.interrupt(Reason.GAVE_UP)
    env.close()
    assert text_of(unknown.observation[0]) == "Error: Error executing tool read: there is no note 'plums'"
    assert "argument 'title' is missing" in text_of(wrong.observation[0])
    assert (text_of(message), shown_pictures([message])) == ("A dot:", [PNG])


def test_a_crash_or_timeout_is_an_infrastructure_error_and_leaves_no_process():
    env = NotesEnv(mark=MARK, only=ALL, call_s=2.0, dialect="native")
    env.reset(seed=0)
    with pytest.raises(InfrastructureError, match=r"(?s)has ended|Connection closed.*out of paper"):
        call(env, "crash")
    assert env.reason == "infrastructure"
    env.reset(seed=0)
    with pytest.raises(InfrastructureError, match="took longer than 2 s for 'wait'"):
        call(env, "wait", seconds=600)
    env.close()
    assert eventually(lambda: not is_running(MARK))


@each_row(
    "command, error, words",
    [
        (["/no/such/program"], UsageError, "cannot be started"),
        (["sleep", "600"], InfrastructureError, "longer than 3 s to start"),
    ],
)
def test_a_server_that_does_not_start_is_reported(command: list[str], error: type[Exception], words: str):
    connection = McpConnection()
    with pytest.raises(error, match=words):
        connection.open(McpServer(command, start_s=3.0))
    connection.close()


def test_the_examples_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copy(SERVER, tmp_path)
    monkeypatch.chdir(tmp_path)
    run_page("mcp.md")
