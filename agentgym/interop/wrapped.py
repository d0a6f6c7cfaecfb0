"""`Wrapped`: the base of environments that other packages wrote."""

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
    """Return the function or class in a `functools.partial`, or of an object that is called."""
    while isinstance(make, partial):
        make = make.func
    return make if hasattr(make, "__name__") else type(make)


class Wrapped(Env):
    """An environment whose episodes another package plays.

    A copy, in this process or another, is made anew from the arguments: foreign objects can rarely be pickled.
    """

    _made_with: tuple[tuple[Any, ...], Mapping[str, Any]]
    _randomness: Randomness

    def __new__(cls, *args: Any, **kwargs: Any):
        """Remember the arguments."""
        made = super().__new__(cls)
        made._made_with = args, kwargs
        made._randomness = Randomness()
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _made_again, (type(self), *self._made_with)

    def caveats(self) -> tuple[Caveat, ...]:
        """Return what is unsound about the wrapped environment: guarantees of `agentgym check` that it breaks.

        Found out by trying where that is possible, so this may start a few episodes.
        """
        return ()

    @contextmanager
    def _foreign(self, what: str) -> Iterator[None]:
        """Run foreign code on random generators of its own. What it raises is an `InfrastructureError`.

        Args:
            what: What it does, for the message: `"FrozenLake-v1: step"`.
        """
        with self._randomness.swapped_in():
            try:
                yield
            except AgentGymError:
                raise
            except Exception as error:
                raise InfrastructureError(f"{what}: {describe(error)}{place_of(error)}") from error


def _made_again(kind: type[Wrapped], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Wrapped:
    return kind(*args, **kwargs)
