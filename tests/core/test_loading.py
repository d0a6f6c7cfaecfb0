"""Objects loaded by `module:name`, with the same errors for every kind of object."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agentgym.base import loading
from agentgym.base.loading import also_look_in, load_named
from agentgym.core.dialects import get_dialect
from agentgym.core.registry import class_of, load_class, register
from agentgym.core.task_files import shared
from agentgym.eval.policy_loader import load_policy
from tests.refusals import differing, not_refused, refusal

MINE = """
from json import dumps
from agentgym.core.policy import ScriptedPolicy, SilentPolicy

def make_policy():
    return SilentPolicy()

def make_script():
    return ScriptedPolicy()

def _hidden():
    return None

LIMIT = 5
"""


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_to_load.py").write_text(MINE)
    (tmp_path / "mine_unmet.py").write_text("import mine")
    (tmp_path / "mine_broken.py").write_text("1 / 0")
    (tmp_path / "mine_empty.py").touch()
    monkeypatch.syspath_prepend(tmp_path)


def policy(path: str) -> Any:
    return load_policy(path, env_id="guess", env_kwargs={})


def function(path: str) -> Any:
    return load_named(path, "a function")


LOADERS: dict[str, Callable[[str], Any]] = {
    "an agentgym.Env class": load_class,
    "a policy factory": policy,
    "a dialect class": get_dialect,
    "a task source class": lambda path: shared(path, "somewhere", {}),
}


def test_a_folder_counts_only_for_modules_that_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loading, "FOLDERS", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("named_in_folder", "optional_in_folder"):
        (tmp_path / "folder").mkdir(exist_ok=True)
        (tmp_path / "folder" / f"{name}.py").write_text("def make(): return __name__")
    library = tmp_path / "folder" / ".venv"
    library.mkdir()
    (library / "named_in_library.py").write_text("def make(): return __name__")
    sys.path.append(str(library))
    also_look_in(str(tmp_path / "folder"))
    function("json:dumps")
    function("named_in_library:make")
    assert find_spec("optional_in_folder") is None
    assert function("named_in_folder:make")() == "named_in_folder"
    assert find_spec("optional_in_folder") is not None, "the module may import it later"


def test_a_named_object_is_imported():
    assert function("json:dumps")([1]) == "[1]"
    assert load_named("string:digits", "text", lambda value: isinstance(value, str)) == "0123456789"
    assert policy("mine_to_load:make_policy").name == "silent"


def test_all_loaders_refuse_unknown_modules_and_names_in_the_same_words():
    for kind, load in LOADERS.items():
        rows = [
            ("no_such:X", f"there is no module 'no_such', so 'no_such:X' does not name {kind}; is it on"),
            ("mine_empty:X", f"'mine_empty:X' does not name {kind}, and mine_empty has none"),
        ]
        assert not_refused(load, rows) == []
    assert "did you mean agentgym.envs.guess:GuessEnv?" in refusal(lambda: load_class("agentgym.envs.guess:GuessEn"))
    register("testing/gone-v0", "mine_to_load:Gone")
    assert "'mine_to_load:Gone' does not name an environment" in refusal(lambda: class_of("testing/gone-v0"))


def test_an_unknown_name_is_refused_with_the_names_of_the_module():
    rows = [
        ("mine_to_load:make_polcy", "; did you mean mine_to_load:make_policy?"),
        *((f"mine_to_load:{n}", "; mine_to_load has make_policy, make_script") for n in ("LIMIT", "hidden", "dump")),
    ]
    texts = [(path, f"{path!r} does not name a function{words}") for path, words in rows]
    assert differing(lambda path: refusal(lambda: function(path)), texts) == []
    forms = ["", "json", "json:", "json:a.b", ":x", "json.:x", ".json:x", "a b:x"]
    assert not_refused(function, [(path, "module:name") for path in forms]) == []


def test_a_policy_that_sees_the_gold_is_not_loaded_by_name():
    rows = [("mine_to_load:make_script", "shown each task's gold"), ("platform:python_version", "returned a str")]
    assert not_refused(policy, rows) == []
