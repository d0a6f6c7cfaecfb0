"""A DuckDB worker may die at any time: it is replaced for the next statement and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from agentgym.base.errors import InfrastructureError
from agentgym.tools.database import Column, DatabasePool, DatabaseSpec, QueryError, QueryErrorKind, QueryLimits, Table
from agentgym.tools.database.duckdb import engine as duckdb_engine
from agentgym.tools.database.duckdb.engine import WorkerProcess
from tests.rows import each_row
from tests.waiting import eventually

SPEC = DatabaseSpec("small", (Table("t", (Column("a", "INTEGER"),), ((1,), (2,), (3,))),))
COUNT = "SELECT count(*), sum(a) FROM t"
OPENING = """
import os, signal, sys, time
from agentgym.tools.database import *
spec = DatabaseSpec('s', (Table('t', (Column('a', 'INTEGER'),), ((1,),)),))
open_database(spec).query('SELECT * FROM t')
"""


@pytest.fixture
def pool():
    pool = DatabasePool()
    yield pool
    pool.close()


def running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int) -> bool:
    return eventually(lambda: not running(pid))


def test_a_killed_worker_is_replaced_without_an_error(pool):
    with pool.open(SPEC, "duckdb") as database:
        for _ in range(2):
            (pid,) = pool.worker_pids()
            os.kill(pid, signal.SIGKILL)
            assert database.query(COUNT).rows == ((3, 6),)
            assert pool.worker_pids() != (pid,)


def test_a_stuck_worker_is_killed_and_replaced(pool):
    with pool.open(SPEC, "duckdb") as database:
        (pid,) = pool.worker_pids()
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(QueryError) as caught:
            database.query("SELECT 1", QueryLimits(timeout_s=0.2))
        assert caught.value.kind is QueryErrorKind.TIMEOUT
        assert gone(pid)
        assert database.query(COUNT).rows == ((3, 6),)


class DyingProcess(WorkerProcess):
    """A worker that dies during every statement."""

    def request(self, message, timeout_s):
        if message["op"] == "query":
            os.kill(self.pid, signal.SIGKILL)
        return super().request(message, timeout_s)


def test_a_statement_that_kills_two_workers_is_a_query_error(pool, monkeypatch):
    with pool.open(SPEC, "duckdb") as database:
        with monkeypatch.context() as patch:
            patch.setattr(duckdb_engine, "WorkerProcess", DyingProcess)
            os.kill(pool.worker_pids()[0], signal.SIGKILL)
            with pytest.raises(QueryError, match="memory"):
                database.query(COUNT)
        assert database.query(COUNT).rows == ((3, 6),)


def test_a_worker_that_cannot_start_is_an_infrastructure_error(pool, monkeypatch):
    with pool.open(SPEC, "duckdb") as database:
        os.kill(pool.worker_pids()[0], signal.SIGKILL)
        monkeypatch.setattr(sys, "executable", "/bin/false")
        with pytest.raises(InfrastructureError, match="did not start"):
            database.query(COUNT)


def test_closing_leaves_no_process_and_no_directory(pool):
    pool.open(SPEC, "duckdb").query(COUNT)
    (pid,) = pool.worker_pids()
    directory = os.readlink(f"/proc/{pid}/cwd")
    assert os.listdir(directory)
    pool.close()
    pool.close()
    assert not running(pid)
    assert not os.path.exists(directory)


@pytest.mark.real
@each_row("ending", ["pass", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_no_worker_outlives_its_process(ending):
    script = f"{OPENING}print(*default_pool().worker_pids(), flush=True)\n{ending}\n"
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=False)
    assert gone(int(done.stdout))


@pytest.mark.real
def test_a_forked_child_starts_its_own_worker(pool):
    database = pool.open(SPEC, "duckdb")
    embedded = pool.open(SPEC, "sqlite")
    embedded.query(COUNT)
    pids = pool.worker_pids()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        same = database.query(COUNT).rows == embedded.query(COUNT).rows == ((3, 6),)
        os.write(write, f"{same} {pool.worker_pids() != pids} {pool.worker_pids()[0]}".encode())
        os._exit(0)
    answer = os.read(read, 100).decode().split()
    os.waitpid(child, 0)
    os.close(read)
    os.close(write)
    assert answer[:2] == ["True", "True"]
    assert gone(int(answer[2]))
    assert database.query(COUNT).rows == ((3, 6),)
    assert pool.worker_pids() == pids


def test_a_worker_does_not_inherit_secrets(pool, monkeypatch):
    monkeypatch.setenv("AGENTGYM_TEST_SECRET", "hidden")
    pool.open(SPEC, "duckdb")
    with open(f"/proc/{pool.worker_pids()[0]}/environ", "rb") as stream:
        assert b"hidden" not in stream.read()
