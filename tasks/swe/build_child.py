"""The process in which `SubprocessRunner` runs pytest: a script that needs nothing but pytest.

Started as `python -P build_child.py FD REQUEST`; writes one JSON object a line to the descriptor FD.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

MAX_TEXT = 600


class Reporter:
    """A pytest plugin that tells what became of each test, why it failed, and which functions it ran."""

    def __init__(self, descriptor: int, root: str, trace: bool):
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", buffering=1)
        self._root = root.rstrip("/") + "/"
        self._trace = trace
        self._status: dict[str, str] = {}
        self._compared: tuple[str, str, str] | None = None
        self._seen: set[Any] = set()

    def start(self) -> None:
        """Begin to note functions that are run."""
        if self._trace:
            threading.settrace(self._called)
            sys.settrace(self._called)

    def _called(self, frame: Any, event: str, argument: Any) -> None:
        self._seen.add(frame.f_code)

    def _send(self, **values: Any) -> None:
        self._file.write(json.dumps(values) + "\n")

    def _send_functions(self, test: str) -> None:
        codes, self._seen = self._seen, set()
        inside = [code for code in codes if code.co_filename.startswith(self._root)]
        names = {(code.co_filename[len(self._root) :], code.co_qualname) for code in inside}
        if names:
            self._send(ran=sorted(names), by=test)

    def pytest_collectreport(self, report: Any) -> None:
        """Tell which files could not be collected."""
        if report.failed:
            self._send(uncollected=report.nodeid, text=str(report.longrepr)[-MAX_TEXT:])

    def pytest_collection_finish(self, session: Any) -> None:
        """Tell what functions were run by importing."""
        if self._trace:
            self._send_functions("")

    def pytest_assertrepr_compare(self, config: Any, op: str, left: Any, right: Any) -> None:
        """Keep both sides of the comparison that fails."""
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
        """Note the outcome of a phase; the test's own phase counts unless setup or teardown fails."""
        test = report.nodeid
        if report.when == "call" or report.outcome != "passed":
            expected = hasattr(report, "wasxfail")
            status = str(report.outcome)
            if expected:
                status = "xpassed" if status == "passed" else "xfailed"
            if report.when != "call" and report.outcome == "failed":
                status = "error"
            self._status[test] = status
        if report.when == "teardown":
            if self._trace:
                self._send_functions(test)
            self._send(test=test, status=self._status.pop(test, "error"), duration=round(report.duration, 4))

    def finish(self, code: int) -> None:
        """Tell that the run came to its end."""
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
    except Exception:  # the package's own __repr__ may be what is broken
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
    """Run pytest as the request says."""
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

    reporter = Reporter(descriptor, root, request["trace"])
    reporter.start()
    code = int(pytest.main([*arguments, *request["tests"]], plugins=[reporter]))
    reporter.finish(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
