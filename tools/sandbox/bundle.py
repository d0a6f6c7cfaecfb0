"""The agent as one source text, so that it can start where nothing of agentgym is installed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_PACKAGE = "agentgym.tools.sandbox.agent"

_LOADER = '''
import importlib.abc, importlib.machinery, linecache, sys

class Bundle(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds the modules of the agent in this text, and nothing else."""

    def __init__(self, sources):
        self.sources = sources
        self.packages = {name.rpartition(".")[0] for name in sources if "." in name}

    def find_spec(self, name, path=None, target=None):
        if name not in self.sources:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=self.is_package(name), origin=f"<{name}>")

    def is_package(self, name):
        return name in self.packages

    def get_source(self, name):
        return self.sources[name]

    def exec_module(self, module):
        name = module.__spec__.name
        text = self.sources[name]
        linecache.cache[f"<{name}>"] = (len(text), None, text.splitlines(True), f"<{name}>")
        exec(compile(text, f"<{name}>", "exec", dont_inherit=True), module.__dict__)

sys.meta_path.insert(0, Bundle(SOURCES))
'''


@cache
def agent_source() -> str:
    """Return Python source that makes the agent's modules importable; add the call that is wanted."""
    folder = Path(__file__).parent / "agent"
    sources: dict[str, str] = dict.fromkeys(("agentgym", "agentgym.tools", "agentgym.tools.sandbox"), "")
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        name = ".".join((_PACKAGE, *(part for part in parts if part != "__init__")))
        sources[name] = path.read_text(encoding="utf-8")
    return f"SOURCES = {sources!r}\n{_LOADER}"


def agent_program(read_fd: int, write_fd: int) -> str:
    """Return the program of an agent that speaks over these descriptors; the first frame it expects is its settings."""
    return f"{agent_source()}\nfrom agentgym.tools.sandbox.agent.start import main\nmain({read_fd}, {write_fd})\n"
