from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentgym.dialects import get_dialect
from agentgym.engine.sharing import shared
from agentgym.errors import UsageError
from agentgym.loading import load_named
from agentgym.policy_loader import load_policy
from agentgym.registry import class_of, load_class, register

MINE = """
from json import dumps
from agentgym.policy import ScriptedPolicy, SilentPolicy

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
    (tmp_path / "mine_empty.py").touch()
    monkeypatch.syspath_prepend(tmp_path)


def policy(path: str) -> Any:
    return load_policy(path, env_id="guess", env_kwargs={})


LOADERS: dict[str, Callable[[str], Any]] = {
    "an agentgym.Env class": load_class,
    "a policy factory": policy,
    "a dialect class": get_dialect,
    "a task source class": lambda path: shared(path, "somewhere", {}),
}


def test_what_is_named_is_imported():
    assert load_named("json:dumps", "a function")([1]) == "[1]"
    assert load_named("string:digits", "text", lambda found: isinstance(found, str)) == "0123456789"
    assert policy("mine_to_load:make_policy").name == "silent"


@pytest.mark.parametrize("what", LOADERS)
def test_whatever_is_loaded_is_refused_in_the_same_words(what: str):
    load = LOADERS[what]
    with pytest.raises(
        UsageError, match=rf"there is no module 'no_such', so 'no_such:X' does not name {what}; is it on"
    ):
        load("no_such:X")
    with pytest.raises(UsageError, match=rf"'mine_empty:X' does not name {what}, and mine_empty has none"):
        load("mine_empty:X")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("mine_to_load:make_polcy", "; did you mean mine_to_load:make_policy?"),
        ("mine_to_load:LIMIT", "; mine_to_load has make_policy, make_script"),
        ("mine_to_load:hidden", "; mine_to_load has make_policy, make_script"),
        ("mine_to_load:dump", "; mine_to_load has make_policy, make_script"),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_those_that_the_module_defines(path: str, message: str):
    with pytest.raises(UsageError) as refused:
        load_named(path, "a function")
    assert str(refused.value) == f"{path!r} does not name a function{message}"


def test_the_environment_that_was_meant_is_named():
    with pytest.raises(UsageError, match=r"did you mean agentgym\.envs\.guess:GuessEnv\?"):
        load_class("agentgym.envs.guess:GuessEn")


def test_an_id_that_stands_for_nothing_is_reported():
    register("testing/gone-v0", "mine_to_load:Gone")
    with pytest.raises(UsageError, match="'mine_to_load:Gone' does not name an environment"):
        class_of("testing/gone-v0")


@pytest.mark.parametrize("path", ["", "json", "json:", "json:a.b", ":x", "json.:x", ".json:x", "a b:x"])
def test_what_is_no_path_is_reported(path: str):
    with pytest.raises(UsageError, match="is not of the form module:name"):
        load_named(path, "a function")


def test_what_a_module_looks_for_in_vain_is_not_taken_for_the_module():
    """The module that is missing has a name that the one it is missing in begins with."""
    with pytest.raises(ModuleNotFoundError, match="No module named 'mine'"):
        load_named("mine_unmet:X", "a function")


def test_a_policy_that_is_shown_the_gold_is_not_evaluated_by_name():
    with pytest.raises(UsageError, match="returned a ScriptedPolicy, which is shown each task's gold"):
        policy("mine_to_load:make_script")
    with pytest.raises(UsageError, match="returned a str, which is neither a ChatPolicy nor a TokenPolicy"):
        policy("platform:python_version")
