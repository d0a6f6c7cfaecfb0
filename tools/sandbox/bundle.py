"""The agent as a single source text, so that it can start where agentgym is not installed."""

from __future__ import annotations

import importlib.util
import marshal
from functools import cache
from pathlib import Path

_PACKAGE = "agentgym.tools.sandbox.agent"

_LOADER = '''
import importlib.machinery, importlib.util, marshal, sys

class Bundle:
    """Finds only the agent's modules in this text, and drops each once it is loaded."""

    def __init__(self, sources, codes):
        self.sources = sources
        self.codes = codes
        self.packages = {name.rpartition(".")[0] for name in sources if "." in name}

    def find_spec(self, name, path=None, target=None):
        if name not in self.sources:
            return None
        is_package = name in self.packages
        return importlib.machinery.ModuleSpec(name, self, is_package=is_package, origin=f"<{name}>")

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__spec__.name
        source, code = self.sources.pop(name), self.codes.pop(name, None)
        code = compile(source, f"<{name}>", "exec", dont_inherit=True) if code is None else marshal.loads(code)
        exec(code, module.__dict__)

sys.meta_path.insert(0, Bundle(SOURCES, CODES if importlib.util.MAGIC_NUMBER == MAGIC else {}))
del SOURCES, CODES

from agentgym.tools.sandbox.agent import hooks

hooks.collect()
'''


@cache
def agent_source() -> str:
    """Return Python source that makes the agent's modules importable; append the call to make.

    It includes their bytecode, so that an interpreter of the same version starts much faster.
    """
    sources = _sources()
    codes = {
        name: marshal.dumps(compile(text, f"<{name}>", "exec", dont_inherit=True)) for name, text in sources.items()
    }
    return f"SOURCES = {sources!r}\nCODES = {codes!r}\nMAGIC = {importlib.util.MAGIC_NUMBER!r}\n{_LOADER}"


@cache
def _sources() -> dict[str, str]:
    folder = Path(__file__).parent / "agent"
    sources: dict[str, str] = dict.fromkeys(("agentgym", "agentgym.tools", "agentgym.tools.sandbox"), "")
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join((_PACKAGE, *(part for part in parts if part != "__init__")))
        sources[name] = path.read_text(encoding="utf-8")
    return sources


def started(start: str) -> str:
    """Return a program for `interpreter.RUN_STDIN` that runs `start` with the agent's modules and drops its text."""
    return f"{agent_source()}\ndef start():\n    {start}\n"


def agent_program(read_fd: int, write_fd: int) -> str:
    """Return the program of an agent on these descriptors; it expects its settings as the first frame."""
    return started(f"from agentgym.tools.sandbox.agent.start import main; main({read_fd}, {write_fd})")
