"""PostgreSQL servers of our own: found, confined, lent to one user at a time, and gone when nobody needs them."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentgym.errors import InfrastructureError, ToolError, UsageError
from agentgym.tools.postgres import Server, ServerPool, confining
from agentgym.tools.postgres import server as server_module
from agentgym.tools.postgres.programs import FOLDER, find_programs
from agentgym.tools.postgres.session import Session
from tests.postgres_tasks import need_postgres
from tests.waiting import eventually, is_running

pytestmark = pytest.mark.postgres
need_postgres()


@pytest.fixture
def pool() -> Iterator[ServerPool]:
    made = ServerPool()
    yield made
    made.close()


def test_a_server_is_lent_again_only_if_it_is_as_it_was(pool: ServerPool):
    one = pool.lend()
    one.create_database("mine")
    one.drop_database("mine")
    pool.give_back(one)
    assert pool.lend() is one
    for change in (
        "CREATE ROLE somebody",
        "ALTER ROLE postgres SET work_mem = '1MB'",
        "CREATE DATABASE left_there",
        "GRANT pg_read_all_data TO pg_monitor",
        "ALTER DATABASE template1 ALLOW_CONNECTIONS false",
    ):
        one.run(change)
        pool.give_back(one)
        another = pool.lend()
        assert another is not one, change
        assert not one.folder.exists()
        one = another
    pool.give_back(one)


def test_a_database_kept_for_copies_that_somebody_opened_is_not_lent_again(pool: ServerPool):
    one = pool.lend()
    one.create_database("kept_a")
    one.run("ALTER DATABASE kept_a ALLOW_CONNECTIONS false")
    pool.give_back(one)
    assert pool.lend() is one
    one.run("ALTER DATABASE kept_a ALLOW_CONNECTIONS true")
    pool.give_back(one)
    assert not one.folder.exists()


def test_two_users_have_two_servers(pool: ServerPool):
    one, two = pool.lend(), pool.lend()
    assert one.folder != two.folder
    pool.give_back(one)
    pool.give_back(two)


def test_a_server_that_ended_is_replaced(pool: ServerPool):
    one = pool.lend()
    pool.give_back(one)
    one.close()
    two = pool.lend()
    assert two is not one
    assert two.run("SELECT 1") == [(1,)]
    pool.give_back(two)
    with pytest.raises(InfrastructureError, match="fails"):
        one.run("SELECT 1")


STARTS = """
import sys, time
from agentgym.tools.postgres import Server

server = Server.start()
print(server.folder, flush=True)
time.sleep(600)
"""


def test_a_server_ends_with_the_process_that_started_it():
    place = tempfile.mkdtemp()  # not below `tmp_path`, which the server's user may not enter
    os.chmod(place, 0o711)
    surroundings = os.environ | {"TMPDIR": place}
    child = subprocess.Popen([sys.executable, "-c", STARTS], stdout=subprocess.PIPE, text=True, env=surroundings)
    assert child.stdout is not None
    folder = child.stdout.readline().strip()
    assert is_running(folder)
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert eventually(lambda: not is_running(folder))
    shutil.rmtree(place)


def test_a_forked_child_leaves_the_servers_of_its_parent_alone(tmp_path: Path):
    process = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    server_module._end(process, tmp_path, os.getpid() + 1)  # as in a child
    assert tmp_path.is_dir()
    process.wait()
    server_module._end(process, tmp_path, os.getpid())
    assert not tmp_path.exists()


def test_a_process_may_have_many_files(pool: ServerPool):
    """`select` takes no descriptor above 1023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2048, hard), hard))
    try:
        with contextlib.ExitStack() as files:
            while files.enter_context(open(os.devnull)).fileno() < 1024:
                pass
            server = pool.lend()
            session = Session(server, "postgres")
            assert session.run("SELECT pg_sleep(0.01), 1", 30.0).row_count == 1
            session.close()
            pool.give_back(server)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_session_takes_bounded_room(pool: ServerPool):
    server = pool.lend()
    session = Session(server, "postgres", max_growth=256 << 20)
    grow = "CREATE TABLE large AS SELECT repeat(md5(n::text), 50) FROM generate_series(1, 100000000) AS n"
    with pytest.raises(ToolError, match=r"grew by more than 0\.25 GiB.*Drop what you do not need"):
        session.run(grow, 120.0)
    assert session.run("SELECT 1", 30.0).rows == [("1",)]
    # Of one row, too: it would be held whole in this process.
    for large in ("repeat('x', 1000000000)", "array_agg(repeat(n::text, 1000)) FROM generate_series(1, 9999999) AS n"):
        with pytest.raises(ToolError, match=r"out of memory|invalid memory alloc"):
            session.run(f"SELECT {large}", 120.0)
    assert session.run("SELECT 1", 30.0).rows == [("1",)]
    session.close()
    pool.give_back(server)


@pytest.mark.parametrize("place", ["/tmp/large", "/dev/shm/large"])
def test_a_confined_server_does_not_fill_the_memory_with_files(pool: ServerPool, place: str):
    server = pool.lend()
    session = Session(server, "postgres")
    with pytest.raises(ToolError, match=r"No space left|Read-only|Permission denied"):
        session.run(f"COPY (SELECT repeat('x', 1000) FROM generate_series(1, 200000)) TO '{place}'", 60.0)
    session.close()
    pool.give_back(server)


def test_an_unconfined_server_is_only_started_on_request(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(confining, "_why_not", lambda: "it is not to be")
    with pytest.raises(UsageError, match="allow_weak=true"):
        Server.start()
    server = Server.start(allow_weak=True)
    assert not server.confined
    [(user,)] = server.run("SELECT current_setting('is_superuser')")
    assert user == "on"
    server.close()
    assert not server.folder.exists()
    assert not is_running(str(server.folder))


def test_nobody_else_reaches_a_server(pool: ServerPool):
    server = pool.lend()
    assert server.run("SHOW listen_addresses") == [("",)]
    assert os.stat(server.folder).st_mode & 0o077 == 0
    pool.give_back(server)


def test_missing_programs_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    with pytest.raises(UsageError, match="PostgreSQL is not installed"):
        find_programs()
