"""Environments by id, short name, class and entry point, with suggestions for wrong names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

from agentgym.core.env import Env
from agentgym.core.registry import list_environments, make
from agentgym.envs.catalog import ENVIRONMENTS
from tests.refusals import not_refused
from tests.waiting import HANG_S

PLUGIN = '''
from agentgym import Env, GeneratedTasks, Task


class BoxesEnv(Env):
    """Somebody else's environment."""

    @classmethod
    def default_tasks(cls):
        return GeneratedTasks("boxes", lambda split, index: Task(f"boxes/{split}/{index}", split, "?"), {"train": None})

    def respond(self, text):
        return "ok"
'''


def run(code: str, *path: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter that also finds modules in `path`."""
    lines = "".join(f"import sys; sys.path.insert(0, {str(folder)!r})\n" for folder in path)
    command = [sys.executable, "-W", "error", "-c", lines + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)


def install(folder: Path, entry: str, module: str = "acme_boxes", source: str = PLUGIN) -> None:
    """Lay out an installed distribution that declares an environment."""
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[agentgym.envs]\n{entry}\n")


# By name.


def test_an_environment_can_be_made_by_any_of_its_names():
    names = ("guess", "guess-v0", "agentgym/guess", "agentgym/guess-v0", "agentgym.envs.guess:GuessEnv")
    assert [type(make(name, max_turns=3)).__name__ for name in names] == ["GuessEnv"] * len(names)
    assert make("guess", max_turns=3).max_turns == 3
    assert isinstance(gymnasium.make("agentgym/guess-v0", max_turns=3).unwrapped, Env)
    assert set(ENVIRONMENTS) <= set(list_environments())


def test_an_unknown_name_or_class_gets_a_suggestion():
    rows = [
        ("gues", "unknown environment 'gues'; did you mean 'guess'"),
        ("agentgym/gess-v0", "did you mean 'agentgym/guess-v0'"),
        ("sqll", "did you mean 'sql'"),
        ("sqll", "There are: agentgym/"),
        ("no_such_module:X", "there is no module 'no_such_module'"),
        ("json:JSONDecoder", "does not name an agentgym.Env class"),
        ("CartPole-v1", "is a CartPoleEnv, not an agentgym.Env; use gymnasium.make"),
    ]
    assert not_refused(make, rows) == []
    assert "CartPole-v1" not in list_environments()


# In fresh interpreters.


@pytest.mark.real
def test_gymnasium_makes_environments_in_any_order_of_imports():
    for imports in ("agentgym, gymnasium", "gymnasium, agentgym"):
        code = f"import {imports}, sys; print('agentgym.core.env' in sys.modules, 'torch' in sys.modules)\n"
        done = run(code + "print(gymnasium.make('agentgym/guess-v0').unwrapped.max_turns)")
        assert done.stdout.split() == ["False", "False", "12"]
    done = run("import gymnasium; print(gymnasium.make('agentgym.envs:agentgym/guess-v0').unwrapped.max_turns)")
    assert (done.stdout, done.stderr) == ("12\n", "")


# From other packages.


@pytest.mark.real
def test_an_installed_package_adds_environments(tmp_path: Path):
    install(tmp_path, "acme/boxes-v0 = acme_boxes:BoxesEnv")
    code = "import agentgym as a, sys; print('acme/boxes-v0' in a.list_environments(), 'acme_boxes' in sys.modules)"
    assert run(code, tmp_path).stdout == "True False\n"
    code = (
        "import agentgym as a; e = a.make('acme/boxes'); e.reset(seed=1); print(e.step('x').observation[0]['content'])"
    )
    assert run(code, tmp_path).stdout == "ok\n"
    code = "import gymnasium as g; print(type(g.make('agentgym.envs:acme/boxes-v0').unwrapped).__name__)"
    assert run(code, tmp_path).stdout == "BoxesEnv\n"
