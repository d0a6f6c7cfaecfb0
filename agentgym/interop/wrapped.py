"""`Wrapped`: the base of adapters for other packages' environments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from agentgym.env import Env
from agentgym.errors import AgentGymError, InfrastructureError
from agentgym.foreign.errors import describe, place_of
from agentgym.interop.caveats import Caveat
from agentgym.interop.randomness import Randomness


def unpacked(make: Callable[..., Any]) -> Any:
    """Return the function or class behind a callable: that in a `functools.partial`, or an object's class."""
    while isinstance(make, partial):
        make = make.func
    return make if hasattr(make, "__name__") else type(make)


class Wrapped(Env):
    """An environment whose episodes another package plays.

    Copying and pickling make it anew from its arguments, since foreign objects can rarely be pickled.
    """

    _made_with: tuple[tuple[Any, ...], Mapping[str, Any]]
    _randomness: Randomness

    def __new__(cls, *args: Any, **kwargs: Any):
        """Remember the arguments."""
        instance = super().__new__(cls)
        instance._made_with = args, kwargs
        instance._randomness = Randomness()
        return instance

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (type(self), *self._made_with)

    def caveats(self) -> tuple[Caveat, ...]:
        """Return the guarantees of `agentgym check` that the wrapped environment breaks, and other remarks.

        They are tested where possible, so this may start a few episodes.
        """
        return ()

    @contextmanager
    def _foreign(self, what: str) -> Iterator[None]:
        """Run foreign code with its own random generators. Its exceptions become `InfrastructureError`s.

        Args:
            what: Names the operation in the error, e.g. `"FrozenLake-v1: step"`.
        """
        with self._randomness.swapped_in():
            try:
                yield
            except AgentGymError:
                raise
            except Exception as error:
                raise InfrastructureError(f"{what}: {describe(error)}{place_of(error)}") from error


def _make(kind: type[Wrapped], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Wrapped:
    return kind(*args, **kwargs)
