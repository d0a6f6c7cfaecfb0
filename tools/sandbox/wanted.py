"""A sandbox as a client of a server asks for it, checked: what is wrong with it is the client's mistake."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from agentgym.errors import UsageError
from agentgym.tools.sandbox import answers
from agentgym.tools.sandbox.limits import Limits
from agentgym.tools.sandbox.spec import SandboxSpec

_WORKDIR = re.compile(r"(/[A-Za-z0-9_][A-Za-z0-9._-]{0,63}){1,8}")
_SYSTEM = frozenset(("bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "proc", "run", "sbin", "sys", "tmp", "usr"))
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}")
_MAX_VARIABLES = 256
_MAX_VARIABLES_CHARS = 100_000


class _Wanted(BaseModel):
    """A folder to begin with comes afterwards, by frames. Modules to preload are for the server alone to name."""

    model_config = ConfigDict(extra="forbid", strict=True)

    limits: dict[str, int | float] = {}
    image: str | None = None
    workdir: str = "/work"
    environment: dict[str, str] = {}


def spec_in(content: Mapping[str, Any], most: Limits, *, images: bool) -> SandboxSpec:
    """Return what a request to open a sandbox asks for.

    Args:
        content: The request.
        most: Limits that none of its own may be above.
        images: Whether sandboxes can be had with an image.

    Raises:
        UsageError: One line that says what is wrong.
    """
    try:
        wanted = _Wanted.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise UsageError(f"{'.'.join(map(str, first['loc']))!r:.100}: {first['msg']}") from None
    most.refuse_above(wanted.limits)
    _check_places(wanted, images)
    _check_environment(wanted.environment)
    return SandboxSpec(
        limits=_limits(wanted.limits), image=wanted.image, workdir=wanted.workdir, environment=wanted.environment
    )


def _limits(given: Mapping[str, int | float]) -> Limits:
    whole = {each.name for each in fields(Limits) if isinstance(each.default, int)}
    for name, value in given.items():
        if name in whole and not float(value).is_integer():
            raise UsageError(f"limits.{name}={value!r} must be a whole number")
    checked = {name: int(value) if name in whole else value for name, value in given.items()}
    try:
        return Limits(**checked)  # pyright: ignore[reportArgumentType]
    except TypeError as error:
        raise UsageError(f"limits: {error}") from None


def _check_places(wanted: _Wanted, images: bool) -> None:
    if not _WORKDIR.fullmatch(wanted.workdir) or wanted.workdir.split("/")[1] in _SYSTEM:
        raise UsageError(
            f"workdir={wanted.workdir!r:.100} must be an absolute path such as '/work': plain names, none of them "
            "'..', and not in a folder of the system"
        )
    if wanted.image is None:
        return
    if not images:
        raise UsageError("this server has no images; ask for a sandbox without one")
    if not _IMAGE.fullmatch(wanted.image):
        raise UsageError(f"image={wanted.image!r:.100} is no name of an image")


def _check_environment(environment: Mapping[str, str]) -> None:
    chars = sum(len(name) + len(value) for name, value in environment.items())
    if len(environment) > _MAX_VARIABLES or chars > _MAX_VARIABLES_CHARS:
        raise UsageError(
            f"environment: at most {_MAX_VARIABLES} variables with {_MAX_VARIABLES_CHARS} characters, "
            f"not {len(environment)} with {chars}"
        )
    answers.variables(environment)
    for name, value in environment.items():
        if any("\ud800" <= character <= "\udfff" for character in name + value):
            raise UsageError(f"environment: {name!r:.100} or its value has a lone surrogate, which is no character")
