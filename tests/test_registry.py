"""Environments are found by id, by short name, by class, and in other packages; mistakes are told helpfully."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest

from agentgym.env import Env
from agentgym.envs.catalog import ENVIRONMENTS
from agentgym.errors import UsageError
from agentgym.registry import list_environments, load_class, make, register, resolve

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
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def install(folder: Path, entry: str, module: str = "acme_boxes", source: str = PLUGIN) -> None:
    """Lay out an installed distribution that declares an environment."""
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[agentgym.envs]\n{entry}\n")


# By name.


@pytest.mark.parametrize(
    "name", ["guess", "guess-v0", "agentgym/guess", "agentgym/guess-v0", "agentgym.envs.guess:GuessEnv"]
)
def test_an_environment_is_made_by_any_of_its_names(name: str):
    env = make(name, max_turns=3)
    assert (type(env).__name__, env.max_turns) == ("GuessEnv", 3)


def test_all_bundled_environments_are_listed():
    assert set(ENVIRONMENTS) <= set(list_environments())


@pytest.mark.parametrize(
    ("wrong", "right"), [("gues", "guess"), ("agentgym/gess-v0", "agentgym/guess-v0"), ("sqll", "sql")]
)
def test_a_misspelt_name_gets_a_suggestion(wrong: str, right: str):
    with pytest.raises(
        UsageError, match=f"unknown environment '{wrong}'; did you mean '{right}'.*There are: agentgym/"
    ):
        make(wrong)


def test_a_gymnasium_environment_is_not_taken_for_one_of_ours():
    with pytest.raises(UsageError, match=r"is a CartPoleEnv, not an agentgym\.Env; use gymnasium\.make"):
        make("CartPole-v1")
    assert "CartPole-v1" not in list_environments()


def test_the_newest_version_is_meant_when_none_is_given():
    guess = load_class("agentgym.envs.guess:GuessEnv")
    register("testing/twice-v1", guess)
    register("testing/twice-v2", guess, max_turns=2)
    assert resolve("testing/twice") == "testing/twice-v2"
    assert make("testing/twice").max_turns == 2
    assert {"testing/twice-v1", "testing/twice-v2"} <= set(list_environments())


def test_gymnasium_makes_it_too():
    env = gymnasium.make("agentgym/guess-v0", max_turns=3)
    assert isinstance(env.unwrapped, Env)


@pytest.mark.parametrize("imports", ["agentgym, gymnasium", "gymnasium, agentgym"])
def test_gymnasium_makes_it_once_both_are_imported_in_whichever_order(imports: str):
    code = f"import {imports}, sys; print('agentgym.env' in sys.modules, 'torch' in sys.modules)\n"
    done = run(code + "print(gymnasium.make('agentgym/guess-v0').unwrapped.max_turns)")
    assert done.stdout.split() == ["False", "False", "12"]


def test_importing_the_package_does_not_import_gymnasium():
    assert run("import agentgym, sys; print('gymnasium' in sys.modules)").stdout.split() == ["False"]


def test_gymnasium_makes_it_with_nothing_imported_before():
    done = run("import gymnasium; print(gymnasium.make('agentgym.envs:agentgym/guess-v0').unwrapped.max_turns)")
    assert (done.stdout, done.stderr) == ("12\n", "")


# By class.


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module:X", "there is no module 'no_such_module'"),
        ("agentgym.envs.nothing:X", "there is no module 'agentgym.envs.nothing'"),
        ("agentgym.envs.guess:GessEnv", "does not name an agentgym.Env class"),
        ("agentgym.envs.guess:HIGHEST", "does not name an agentgym.Env class"),
        ("json:JSONDecoder", "does not name an agentgym.Env class"),
    ],
)
def test_a_class_path_that_leads_nowhere_is_reported(path: str, message: str):
    with pytest.raises(UsageError, match=message):
        make(path)


@pytest.mark.parametrize("source", ["import no_such_dependency", "1 / 0"])
def test_an_error_inside_a_module_comes_through_as_it_is(tmp_path: Path, source: str):
    (tmp_path / "broken_boxes.py").write_text(source)
    done = run("import agentgym; agentgym.make('broken_boxes:BoxesEnv')", tmp_path)
    assert "broken_boxes.py" in done.stderr
    assert source in done.stderr
    assert done.stderr.splitlines()[-1].startswith(
        ("ModuleNotFoundError: No module named 'no_such", "ZeroDivisionError")
    )


# From other packages.


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


def test_a_broken_package_breaks_nothing_but_itself(tmp_path: Path):
    install(tmp_path, "acme/boxes-v0 = acme_boxes:BoxesEnv", source="import no_such_dependency")
    assert run("import agentgym; agentgym.make('guess')", tmp_path).returncode == 0
    done = run("import agentgym; agentgym.make('acme/boxes-v0')", tmp_path)
    assert "No module named 'no_such_dependency'" in done.stderr.splitlines()[-1]


def test_a_package_cannot_replace_a_bundled_environment(tmp_path: Path):
    install(tmp_path, "agentgym/guess-v0 = acme_boxes:BoxesEnv")
    assert run("import agentgym; print(type(agentgym.make('guess')).__name__)", tmp_path).stdout == "GuessEnv\n"


def test_an_entry_that_is_no_environment_id_is_told_and_breaks_nothing(tmp_path: Path):
    install(tmp_path, "boxes! = acme_boxes:BoxesEnv")
    done = run("import warnings; warnings.simplefilter('default')\nimport agentgym; agentgym.make('guess')", tmp_path)
    assert done.returncode == 0
    assert "the environment 'boxes!' (acme_boxes:BoxesEnv) cannot be registered: Malformed" in done.stderr


# Importing.


def test_import_loads_nothing_heavy_and_does_nothing():
    code = """
import random, sys, threading, os
state, files = random.getstate(), sorted(os.listdir())
import agentgym
heavy = {"torch", "transformers", "gymnasium", "numpy", "pydantic", "rich", "duckdb"} & set(sys.modules)
print(heavy, threading.active_count(), random.getstate() == state, sorted(os.listdir()) == files)
"""
    done = run(code)
    assert (done.stdout, done.stderr) == ("set() 1 True True\n", "")


def test_making_an_environment_loads_no_torch():
    code = "import agentgym, sys; agentgym.make('guess').reset(); print({'torch', 'transformers'} & set(sys.modules))"
    assert run(code).stdout == "set()\n"


def test_every_public_name_is_there():
    code = "import agentgym; print([n for n in agentgym.__all__ if getattr(agentgym, n, None) is None])"
    assert run(code).stdout == "[]\n"
    done = run("import agentgym; agentgym.nothing")
    assert done.stderr.splitlines()[-1] == "AttributeError: module 'agentgym' has no attribute 'nothing'"
