"""The interface to the package `bfcl-eval`: its data, the classes behind its tools, and its checker."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from typing import Any
from uuid import uuid4

from agentgym.errors import InfrastructureError, MissingExtra

_PACKAGE = "bfcl_eval"
_UTILS = f"{_PACKAGE}.eval_checker.multi_turn_eval.multi_turn_utils"
_CHECKER = f"{_PACKAGE}.eval_checker.multi_turn_eval.multi_turn_checker"
_CLASSES = f"{_PACKAGE}.constants.executable_backend_config"
LONG = "long_context"


def require_package() -> None:
    """Raise `MissingExtra` unless the package can be imported."""
    for name in (_PACKAGE, "mpmath"):
        if find_spec(name) is None:
            raise MissingExtra(
                f"{name!r} is not installed; run: pip install --no-deps bfcl-eval mpmath (the packages that bfcl-eval "
                "requires are for models and other tasks, and conflict with those of others)"
            )


def data_file(name: str) -> str:
    """Return the text of a data file of the package, by its path there."""
    require_package()
    return files(_PACKAGE).joinpath("data", name).read_text(encoding="utf-8")


def documents_of(name: str) -> str:
    """Return the file name of the documents of a class's functions."""
    require_package()
    return import_module(_CLASSES).MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]


class BFCLBackend:
    """The objects behind the tools of one episode, created and called by the package's own code.

    Args:
        entry_id: The id of the entry, which determines whether its context is long.
        classes: Names of the classes.
        config: The initial state of each class.
    """

    def __init__(self, entry_id: str, classes: Sequence[str], config: Mapping[str, Any]):
        require_package()
        # The package stores objects in a module under this name, which must be unique to the episode.
        self._name = f"agentgym_{uuid4().hex}"
        self._entry_id, self._classes, self._config = entry_id, list(classes), dict(config)
        self.run([])

    def run(self, calls: Sequence[str]) -> list[str]:
        """Run calls, written as Python, and return the result of each for the model."""
        results, _ = import_module(_UTILS).execute_multi_turn_func_call(
            func_call_list=list(calls),
            initial_config=self._config,
            involved_classes=self._classes,
            model_name=self._name,
            test_entry_id=self._entry_id,
            long_context=LONG in self._entry_id,
            is_evaL_run=False,
        )
        return results

    def close(self) -> None:
        """Forget the objects."""
        _forget(self._name)


def verdict(
    entry_id: str,
    classes: Sequence[str],
    config: Mapping[str, Any],
    played: Sequence[Sequence[Sequence[str]]],
    gold: Sequence[Sequence[str]],
) -> tuple[bool, str]:
    """Return the package checker's verdict on the calls of an episode: whether they are right, and the error type.

    Args:
        entry_id: The id of the entry.
        classes: Names of the classes behind its tools.
        config: The initial state of each class.
        played: The calls of the model, by turn of the user and turn of the model.
        gold: The right calls, by turn of the user.

    Raises:
        InfrastructureError: The checker failed.
    """
    name = f"agentgym_{uuid4().hex}"
    entry = {"id": entry_id, "involved_classes": list(classes), "initial_config": dict(config)}
    try:
        report = import_module(_CHECKER).multi_turn_checker(
            [[list(step) for step in turn] for turn in played], [list(turn) for turn in gold], entry, entry_id, name
        )
    except Exception as error:
        raise InfrastructureError(f"the checker of bfcl-eval failed on {entry_id!r}: {error!r}") from error
    finally:
        _forget(name)
    return bool(report["valid"]), str(report.get("error_type", ""))


def _forget(name: str) -> None:
    """Remove the objects under a name from the module that stores them."""
    objects = vars(import_module(_UTILS))
    beginning = re.sub(r"[-./:]", "_", name)
    for key in [key for key in objects if key.startswith(beginning)]:
        del objects[key]
