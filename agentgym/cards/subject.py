"""`CardSubject`: the topic of a card, a class of environments with its ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import gymnasium

from agentgym.env import Env
from agentgym.loading import load_named
from agentgym.registry import class_of, common_beginning, is_class_path, list_environments, make, resolve
from agentgym.rooms import CATALOG_ON_FILES

_OURS = "agentgym/"


@dataclass(frozen=True)
class CardSubject:
    """One environment, or a family: several ids of one class, such as the pages of MiniWoB++."""

    name: str
    """Short and valid in a file name: `sql`, `miniwob`, `acme-tickets`."""
    kind: type[Env]
    ids: tuple[str, ...]
    """Registered ids, or one path `module:Class`."""

    @property
    def is_family(self) -> bool:
        """Whether several ids share the class."""
        return len(self.ids) > 1

    @property
    def has_tasks(self) -> bool:
        """Whether it has tasks without files or packages that a user must provide."""
        return not set(self.ids) & set(load_named(CATALOG_ON_FILES, "a catalog", lambda value: isinstance(value, dict)))

    @property
    def members(self) -> tuple[str, ...]:
        """The distinctive parts of a family's ids: `click-button` of `agentgym/miniwob-click-button-v0`."""
        beginning = len(common_beginning(self.ids))
        return tuple(_unversioned(env_id)[beginning:] for env_id in self.ids)

    @property
    def path(self) -> str:
        """Import path of the class: `agentgym.envs.sql:SQLEnv`."""
        path = self.ids[0] if is_class_path(self.ids[0]) else gymnasium.spec(self.ids[0]).entry_point
        return path if isinstance(path, str) else f"{self.kind.__module__}:{self.kind.__qualname__}"

    def make(self) -> Env:
        """Make the environment. For a family, it has the tasks of all members, the default of the class."""
        return self.kind() if self.is_family else make(self.ids[0])


def subjects(names: Sequence[str] = ()) -> list[CardSubject]:
    """Return the environments of these names (ids, `module:Class`, families such as `miniwob`).

    Without names, return all that have tasks of their own.

    Raises:
        UsageError: A name is unknown.
    """
    every = _registered()
    if names:
        return [every[name] if name in every else _named(name) for name in names]
    return [subject for subject in every.values() if subject.has_tasks]


def _registered() -> dict[str, CardSubject]:
    classes: dict[object, list[str]] = {}
    for env_id in list_environments():
        classes.setdefault(gymnasium.spec(env_id).entry_point, []).append(env_id)
    all_subjects = [CardSubject(_name_of(ids), class_of(ids[0]), tuple(ids)) for ids in classes.values()]
    return {subject.name: subject for subject in all_subjects}


def _named(name: str) -> CardSubject:
    if is_class_path(name):
        return CardSubject(name.partition(":")[2], class_of(name), (name,))
    env_id = resolve(name)
    return CardSubject(_name_of([env_id]), class_of(env_id), (env_id,))


def _name_of(ids: Sequence[str]) -> str:
    return _unversioned(common_beginning(ids)).removeprefix(_OURS).strip("-").replace("/", "-")


def _unversioned(env_id: str) -> str:
    head, dash, version = env_id.rpartition("-v")
    return head if dash and version.isdecimal() else env_id
