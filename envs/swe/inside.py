"""Runs hidden tests inside the sandbox on the grader's behalf. Sent as text; needs only pytest.

The request comes on stdin, with the test modules and a key; stdin is read and closed before any code under test is
imported. Every result goes, numbered and signed, to the private reply descriptor. Only the grader
knows which tests are in their true form: nothing in the request, the modules or this process reveals it. Where a
test's expected values are withheld, stand-ins (`stand_in`) note what they are compared with.
"""

from __future__ import annotations

import binascii
import builtins
import hmac
import importlib.abc
import importlib.util
import json
import marshal
import os
import sys

UNCOLLECTED, TEST, END = "uncollected", "test", "end"
STAND_IN = "__stand_in__"
"""Builtin that tests with withheld values call to create stand-ins; no module defines this name."""
_MESSAGE_CHARS = 400
_MAX_LINES = 4


def main() -> None:
    """Serve the request on stdin and exit at once, so that no exit handler runs."""
    request = json.loads(sys.stdin.buffer.read())
    emit = _signer(bytes.fromhex(request.pop("key")), _private_descriptor())
    _close_stdin()
    root, leave = os.getcwd(), os._exit
    sys.path[:] = [entry for entry in sys.path if entry and os.path.abspath(entry) != root]
    _find_in(request["pytest"])
    run = _prepared_pytest()
    paths = [os.path.normpath(os.path.join(root, entry)) for entry in request["python_path"]]
    sys.path.extend(paths)
    os.environ.update(PYTHONPATH=os.pathsep.join(paths), PYTHONDONTWRITEBYTECODE="1")
    os.environ.update(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    sys.dont_write_bytecode = True
    sys.argv[:] = ["pytest"]
    files = {os.path.join(root, path): text for path, text in request.pop("files").items()}
    sys.meta_path.insert(0, _finder(files, request["compiled"]))
    numbers: dict[str, int] = {}
    plugins = [_selecting(request["select"], numbers), _observing(emit, numbers, _stand_ins(request.pop("stand_in")))]
    code = run([*_arguments(root), *request["options"], *request["tests"]], plugins)
    emit(END, str(int(code)))
    leave(int(code))


def _find_in(folder: str) -> None:
    """Import pytest from this folder, including parts that an already imported pytest has not loaded yet."""
    sys.path.append(folder)
    names = {name.partition(".")[0] for name in os.listdir(folder)}
    for name, module in list(sys.modules.items()):
        if hasattr(module, "__path__") and name.partition(".")[0] in names:
            module.__path__ = [os.path.join(folder, *name.split("."))]


def _private_descriptor() -> int:
    """Move the reply descriptor to another number, which child processes do not inherit."""
    inherited = int(os.environ.pop("AGENTGYM_REPLY_FD"))
    own = os.dup(inherited)
    os.close(inherited)
    return own


def _close_stdin() -> None:
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.close(nowhere)
    sys.stdin = os.fdopen(0, closefd=False)


def _signer(key: bytes, descriptor: int):
    base, number, write = hmac.new(key, digestmod="sha256"), 0, os.write

    def emit(*parts: str) -> None:
        nonlocal number
        line = "\t".join((str(number), *parts))
        signed = base.copy()
        signed.update(line.encode())
        data = f"{line}\t{signed.hexdigest()}\n".encode()
        number += 1
        while data:
            data = data[write(descriptor, data) :]

    return emit


def _prepared_pytest():
    """Import pytest before anything under test is importable, and return a function that runs it."""
    import _pytest.python
    import _pytest.unittest  # noqa: F401 (loaded now, so that code under test cannot replace it)
    import pytest

    start = pytest.main
    return lambda arguments, plugins: start(arguments, plugins=plugins)


def _stand_ins(text):
    """Install the stand-ins that this text defines; return the function that collects their notes."""
    namespace: dict[str, object] = {"__name__": "stand_in"}
    exec(text, namespace)
    stand_in, collect_notes = namespace["stand_ins"]()  # type: ignore[operator]
    setattr(builtins, STAND_IN, stand_in)
    return collect_notes


def _arguments(root: str) -> list[str]:
    return [
        "-c", os.devnull, "--rootdir", root, "--confcutdir", root, "--import-mode=importlib", "-p", "no:cacheprovider",
        "-q", "--tb=no", "-W", "ignore", "--continue-on-collection-errors",
    ]  # fmt: skip


def _finder(texts, compiled):
    """Return a finder that loads modules from the grader's own copies, whatever happened to the files."""

    def code_of(path):
        if compiled:
            return marshal.loads(binascii.a2b_base64(texts[path]))
        return compile(texts[path], path, "exec", dont_inherit=True)

    class Loader(importlib.abc.Loader):
        def __init__(self, path):
            self._path = path

        def create_module(self, spec):
            return None

        def exec_module(self, module):
            exec(code_of(self._path), module.__dict__)

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            tail = name.rpartition(".")[2]
            for entry in sys.path if path is None else path:
                for candidate in (os.path.join(entry, tail + ".py"), os.path.join(entry, tail, "__init__.py")):
                    if candidate in texts:
                        return importlib.util.spec_from_file_location(name, candidate, loader=Loader(candidate))
            return None

    return Finder


def _selecting(select, numbers):
    """Return a plugin that numbers the cases of every function and then keeps the requested tests."""
    import pytest

    ids = {test for test, how in select if how == "id"}
    beginnings = tuple(test for test, how in select if how == "beginning")
    numbered = {(test, how) for test, how in select if isinstance(how, int)}

    def is_wanted(test) -> bool:
        of_function = (test.partition("[")[0], numbers[test])
        return test in ids or test.startswith(beginnings) or of_function in numbered

    class Selecting:
        @staticmethod
        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(items):
            counts = {}
            for item in items:
                function = item.nodeid.partition("[")[0]
                numbers[item.nodeid] = counts[function] = counts.get(function, -1) + 1
            items[:] = [item for item in items if is_wanted(item.nodeid)]

    return Selecting


def _observing(emit, numbers, collect_notes):
    """Return a plugin that sends, for each test, the observed outcome and the one that pytest reports."""
    observed, reported, lines, notes = {}, {}, {}, {}
    watching = _watching(observed, lines, notes, collect_notes)

    class Observing:
        pytest_runtest_setup = staticmethod(watching("setup"))
        pytest_runtest_call = staticmethod(watching("call"))
        pytest_runtest_teardown = staticmethod(watching("teardown"))

        @staticmethod
        def pytest_collectreport(report):
            if report.failed:
                emit(UNCOLLECTED, _packed(report.nodeid), _packed(str(report.longrepr)[-_MESSAGE_CHARS:]))

        @staticmethod
        def pytest_runtest_logreport(report):
            word = "x" + report.outcome if hasattr(report, "wasxfail") else report.outcome
            phases = reported.setdefault(report.nodeid, {})
            # A subtest reports under the id of its test; one that failed must not be forgotten.
            if phases.get(report.when) != "failed":
                phases[report.when] = word

        @staticmethod
        def pytest_runtest_logfinish(nodeid):
            letters, words = observed.pop(nodeid, {}), reported.pop(nodeid, {})
            phases = ("setup", "call", "teardown")
            emit(
                TEST,
                _packed(nodeid),
                str(numbers.get(nodeid, 0)),
                "".join(letters.get(phase, "-") for phase in phases),
                ",".join(words.get(phase, "-") for phase in phases),
                lines.pop(nodeid, ""),
                _packed(notes.pop(nodeid, "")),
            )

    return Observing


def _watching(observed, lines, notes, collect_notes):
    """Return a factory of hooks for the phases, which record exceptions and, for the call, the notes of stand-ins."""
    import unittest

    import pytest

    skipped, expected = (pytest.skip.Exception, unittest.SkipTest), pytest.xfail.Exception

    def kind(error) -> str:
        return "s" if isinstance(error, skipped) else "x" if isinstance(error, expected) else "f"

    def note(item, phase, error) -> None:
        observed[item.nodeid][phase] = letter = kind(error)
        if phase == "call" and letter == "f":
            lines[item.nodeid] = _lines_in(str(item.path), error)

    def watching(phase):
        def hook(item):
            letters = observed.setdefault(item.nodeid, {})
            collect_notes()
            try:
                result = yield
            except BaseException as error:
                note(item, phase, error)
                raise
            finally:
                if phase == "call":
                    notes[item.nodeid] = collect_notes()
            # pytest catches the exceptions of unittest and stores them on the item.
            excinfo = getattr(item, "_excinfo", None)
            if excinfo:
                note(item, phase, excinfo[0].value)
            else:
                letters[phase] = "p"
            return result

        return pytest.hookimpl(wrapper=True, tryfirst=True)(hook)

    return watching


def _lines_in(path, error) -> str:
    """Return the lines of a file that an exception passed, from the outermost to the innermost."""
    lines, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            lines.append(str(trace.tb_lineno))
        trace = trace.tb_next
    return ".".join(lines[-_MAX_LINES:])


def _packed(text: str) -> str:
    return binascii.b2a_base64(text.encode("utf-8", "backslashreplace"), newline=False).decode()


if __name__ == "__main__":
    main()
