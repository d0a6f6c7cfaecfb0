"""The script that `SubprocessRunner` starts to run pytest. It needs only pytest.

Started as `python -P child.py FD REQUEST`; writes one JSON object per line to the descriptor FD.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAX_TEXT = 2000
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink")
_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def processor_time() -> float:
    """Return the seconds of processor time that this process and its children have used."""
    return sum(os.times()[:4])


class Clock:
    """Makes the clocks jump ahead whenever they are read, as on a busy machine. A pytest plugin.

    The jumps are 1, 10, 100 and 1000 seconds, repeated. If every jump comes first in some run, a test that bounds or
    compares durations fails in one of them. Code that only waits is unaffected.

    Args:
        first: Number of the first jump in each test.
    """

    def __init__(self, first: int):
        self._first = first
        self._ahead = 0
        self.pytest_runtest_setup()

    def pytest_runtest_setup(self) -> None:
        """Start again with the first jump."""
        self._leaps = itertools.islice(itertools.cycle((1, 10, 100, 1000)), self._first, None)

    def install(self) -> None:
        """Replace the functions of the module `time`."""
        for name in _CLOCKS:
            for clock, unit in ((name, 1), (f"{name}_ns", 1_000_000_000)):
                setattr(time, clock, self._leaping(getattr(time, clock), unit))

    def _leaping(self, clock: Callable[[], Any], unit: int) -> Callable[[], Any]:
        def read() -> Any:
            self._ahead += next(self._leaps)
            return clock() + self._ahead * unit

        return read


class Reporter:
    """A pytest plugin that reports the outcome of each test, why it failed, which functions it ran, what it wrote."""

    def __init__(self, descriptor: int, root: str, *, trace: bool, backwards: bool):
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", buffering=1)
        self._root = root.rstrip("/") + "/"
        self._trace, self._backwards = trace, backwards
        self._wrote: str = ""
        self._used = processor_time()
        self._status: dict[str, str] = {}
        self._compared: tuple[str, str, str] | None = None
        self._seen: set[Any] = set()

    def start(self) -> None:
        """Start to record the functions that run and the files that are written."""
        if self._trace:
            sys.addaudithook(self._audited)
            threading.settrace(self._called)
            sys.settrace(self._called)

    def _called(self, frame: Any, event: str, argument: Any) -> None:
        self._seen.add(frame.f_code)

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            paths = arguments[:1] if arguments[2] & _TO_WRITE else ()
        elif event in _CHANGES and arguments[-1] < 0:  # else it is relative to an open folder, as in clean-ups
            paths = arguments[:2]
        else:
            return
        for path in (os.path.abspath(os.fsdecode(argument)) for argument in paths if isinstance(argument, str | bytes)):
            if path.startswith(self._root) and "__pycache__" not in path:
                self._wrote = path[len(self._root) :]

    def _send(self, **values: Any) -> None:
        self._file.write(json.dumps(values) + "\n")

    def _send_functions(self, test: str) -> None:
        codes, self._seen = self._seen, set()
        inside = [code for code in codes if code.co_filename.startswith(self._root)]
        names = {(code.co_filename[len(self._root) :], code.co_qualname) for code in inside}
        if names:
            self._send(ran=sorted(names), by=test)

    def pytest_collectreport(self, report: Any) -> None:
        """Report the files that could not be collected."""
        if report.failed:
            self._send(uncollected=report.nodeid, text=str(report.longrepr)[-MAX_TEXT:])

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Put the tests in the requested order."""
        if self._backwards:
            items.reverse()

    def pytest_collection_finish(self, session: Any) -> None:
        """Report the functions that ran on import."""
        self._wrote = ""
        if self._trace:
            self._send_functions("")

    def pytest_assertrepr_compare(self, config: Any, op: str, left: Any, right: Any) -> None:
        """Keep both sides of the failing comparison."""
        self._compared = (_shown(left), op, _shown(right))

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        """Send why a test failed."""
        if call.excinfo is None or call.excinfo.typename in ("Skipped", "XFailed"):
            self._compared = None
            return
        compared, self._compared = self._compared, None
        if call.excinfo.typename != "AssertionError":
            compared = None
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        self._send(
            failed=item.nodeid,
            when=call.when,
            exception=call.excinfo.typename,
            message=self._clean(_text(call.excinfo.value)),
            compared=[self._clean(text) for text in compared] if compared else None,
            frames=[frame for entry in call.excinfo.traceback[-60:] if (frame := self._frame(entry))],
            parameters={name: _shown(value) for name, value in parameters.items()},
        )

    def _clean(self, text: str) -> str:
        return text.replace(self._root, "")[:MAX_TEXT]

    def _frame(self, entry: Any) -> tuple[str, str, int] | None:
        code = entry.frame.code.raw
        if not code.co_filename.startswith(self._root):
            return None
        return code.co_filename[len(self._root) :], code.co_qualname, entry.lineno + 1

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Record the outcome of a phase; the test's own phase counts unless setup or teardown fails."""
        test = report.nodeid
        if report.when == "call" or report.outcome != "passed":
            expected = hasattr(report, "wasxfail")
            status = str(report.outcome)
            if expected:
                status = "xpassed" if status == "passed" else "xfailed"
            if report.when != "call" and report.outcome == "failed":
                status = "error"
            # A subtest reports under the id of its test; one that failed must not be forgotten.
            if self._status.get(test) not in ("failed", "error"):
                self._status[test] = status
        if report.when == "teardown":
            if self._trace:
                self._send_functions(test)
            status = self._status.pop(test, "error")
            before, self._used = self._used, processor_time()
            self._send(test=test, status=status, took=round(self._used - before, 2), wrote=self._wrote)
            self._wrote = ""

    def finish(self, code: int) -> None:
        """Report that the run finished."""
        self._send(exit=code)
        self._file.close()


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # as in _shown
        return ""


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # the bug may be in the package's own __repr__
        return "<object>"
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."


def _limit_memory(megabytes: int) -> None:
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):
        return


def main() -> int:
    """Run pytest according to the request."""
    descriptor, request = int(sys.argv[1]), json.loads(sys.argv[2])
    root = request["root"]
    os.chdir(root)
    _limit_memory(request["memory_mb"])
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    arguments = ["-c", os.devnull, "--rootdir", root, "--confcutdir", root, "-p", "no:cacheprovider", "-q", "--tb=no"]
    arguments += ["--continue-on-collection-errors", "--import-mode=importlib", "-W", "ignore"]
    if request["max_failures"]:
        arguments.append(f"--maxfail={request['max_failures']}")
    sys.path[:0] = [str(Path(root, entry)) for entry in request["python_path"]]
    sys.argv[:] = ["pytest"]

    import pytest

    reporter = Reporter(descriptor, root, trace=request["trace"], backwards=request["backwards"])
    reporter.start()
    plugins: list[Any] = [reporter]
    if request["leap"] is not None:
        clock = Clock(request["leap"])
        clock.install()
        plugins.append(clock)
    code = int(pytest.main([*arguments, *request["tests"]], plugins=plugins))
    reporter.finish(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
