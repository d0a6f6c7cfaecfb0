"""`import agentgym` loads no other package, and only `trainers` needs the `train` extra."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import HANG_S

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
ROOMS = ("agentgym", "envs", "tasks", "tools", "trainers")

NO_TRAIN_EXTRA = """
import importlib, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"torch", "transformers", "trl", "peft", "accelerate", "datasets", "jinja2",
                                      "matplotlib", "tensorboard", "tokenizers"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""

IMPORT_ALL = """
from agentgym.base.errors import MissingExtra

for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except MissingExtra as missing:  # an adapter derives from classes of the package that it adapts to
        is_adapter = name.startswith(("agentgym.interop.", "agentgym.tools.mcp_server"))
        assert is_adapter and "[train]" not in str(missing), name
print(len(sys.argv[1:]))
"""


def run(code: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def modules(*rooms: str) -> list[str]:
    """Names of all modules of these packages, from their files."""
    imports = []
    for room in rooms:
        for path in sorted((ROOT / room).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            # Files behind links are listed under their own package.
            if parts[1] not in ROOMS and parts[-1] != "__main__":
                name = ".".join(parts if room == "agentgym" else ("agentgym", *parts))
                imports.append(name.removesuffix(".__init__"))
    return imports


def test_importing_the_package_loads_no_other_package_and_has_no_side_effects():
    code = """
import os, random, sys, threading
before, state, files = set(sys.modules), random.getstate(), sorted(os.listdir())
import agentgym
new = {name.partition(".")[0] for name in set(sys.modules) - before} - sys.stdlib_module_names
print(sorted(new), threading.active_count(), random.getstate() == state, sorted(os.listdir()) == files)
print([name for name in agentgym.__all__ if getattr(agentgym, name, None) is None], hasattr(agentgym, "nothing"))
agentgym.make("guess").reset()
print({"torch", "transformers"} & set(sys.modules))
"""
    assert run(code).splitlines() == ["['agentgym'] 1 True True", "[] False", "set()"]


def test_all_packages_but_trainers_import_without_the_train_extra():
    names = modules("agentgym", "envs", "tasks", "tools")
    assert {"agentgym.cli.app", "agentgym.envs.sql", "agentgym.tasks.sql.files", "agentgym.tools.database"} <= set(
        names
    )
    assert run(NO_TRAIN_EXTRA + IMPORT_ALL, *names) == f"{len(names)}\n"


def test_settings_of_training_can_be_shown_without_loading_torch():
    code = NO_TRAIN_EXTRA + "from agentgym.trainers.command import app\napp(['--env', 'sql', '--show-config'])"
    assert "learning_rate:" in run(code)
