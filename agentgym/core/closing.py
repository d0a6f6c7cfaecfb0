"""Closes environments of other authors: an error while closing is logged and does not lose finished episodes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from agentgym.core.foreign import describe, ends_work, running_task

if TYPE_CHECKING:
    from agentgym.core.env import Env

_E = TypeVar("_E", bound="Env")
_log = logging.getLogger(__name__)


@contextmanager
def closed_after(env: _E) -> Iterator[_E]:
    """Context manager: yield an environment and close it."""
    try:
        yield env
    finally:
        close(env)


def close(env: Env) -> None:
    """Close an environment."""
    with closing_errors_logged(env):
        env.close()


@contextmanager
def closing_errors_logged(env: Env) -> Iterator[None]:
    """Log exceptions raised in the block, unless the caller ends the work."""
    try:
        yield
    except BaseException as error:
        if ends_work(error, running_task()):
            raise
        _log.warning("a %s could not be closed: %s", type(env).__name__, describe(error))
