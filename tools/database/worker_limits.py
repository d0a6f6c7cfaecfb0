"""A worker process's limits on itself: memory, time, and exit when its parent is gone."""

from __future__ import annotations

import contextlib
import datetime
import os
import resource
import shutil
import sys
import threading
import time
import types
from collections.abc import Iterator

import duckdb

_SLACK_MB = 256
"""Added to `memory_mb`, so that DuckDB's own limit, with its better message, is reached first."""
_PARENT_CHECK_S = 1.0
_INTERRUPT_AGAIN_S = 0.1


class Watchdog:
    """Interrupts a cursor at its deadline, and exits the process when its parent is gone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._cursor: duckdb.DuckDBPyConnection | None = None
        self._deadline = 0.0
        self._wakes_at = 0.0
        self._parent = os.getppid()
        self._home = os.getcwd()
        threading.Thread(target=self._run, daemon=True).start()

    @contextlib.contextmanager
    def watch(self, cursor: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
        """Interrupt `cursor` if the block takes longer than `seconds`."""
        with self._changed:
            self._cursor, self._deadline = cursor, time.monotonic() + seconds
            # Waking the watchdog for every statement would cost more than planning most of them.
            if self._deadline < self._wakes_at:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._cursor = None

    def _run(self) -> None:
        with self._changed:
            while True:
                remaining_s = self._deadline - time.monotonic()
                if self._cursor is None:
                    self._sleep(_PARENT_CHECK_S)
                elif remaining_s > 0:
                    self._sleep(remaining_s)
                else:
                    self._cursor.interrupt()
                    self._sleep(_INTERRUPT_AGAIN_S)
                if os.getppid() != self._parent:
                    shutil.rmtree(self._home, ignore_errors=True)
                    os._exit(0)

    def _sleep(self, seconds: float) -> None:
        self._wakes_at = time.monotonic() + seconds
        self._changed.wait(seconds)


@contextlib.contextmanager
def address_space(memory_mb: int) -> Iterator[None]:
    """Limit the growth of the process to `memory_mb` (and some slack) within the block."""
    used = _statm(0)
    if used == 0:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = used + ((memory_mb + _SLACK_MB) << 20)
    if hard != resource.RLIM_INFINITY:
        bound = min(bound, hard)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def resident_mb() -> int:
    """Return the process's resident memory in MB; 0 where the system does not report it."""
    return _statm(1) >> 20


def _statm(field: int) -> int:
    try:
        with open("/proc/self/statm", "rb") as stream:
            return int(stream.read().split()[field]) * resource.getpagesize()
    except OSError:
        return 0


class _Utc(datetime.tzinfo):
    """UTC with the two methods that DuckDB expects from a pytz time zone."""

    def utcoffset(self, dt: datetime.datetime | None) -> datetime.timedelta:
        return datetime.timedelta(0)

    def dst(self, dt: datetime.datetime | None) -> datetime.timedelta:
        return datetime.timedelta(0)

    def tzname(self, dt: datetime.datetime | None) -> str:
        return "UTC"

    def localize(self, value: datetime.datetime) -> datetime.datetime:
        return value.replace(tzinfo=self)


def install_utc_timezones() -> None:
    """Replace pytz, which DuckDB's Python client imports for timestamps with a time zone; ours are all UTC."""
    module = types.ModuleType("pytz")
    module.__dict__.update(timezone=lambda name: _Utc(), utc=_Utc())
    sys.modules["pytz"] = module
