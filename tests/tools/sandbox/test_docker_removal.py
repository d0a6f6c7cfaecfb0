"""Containers are removed although the daemon fails, and a failed removal does not stop the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("docker", reason="needs the [docker] extra")

from docker.errors import APIError, NotFound
from requests import Response

from agentgym.tools.sandbox.containers.removal import Remover, remove
from tests.rows import each_row

pytestmark = pytest.mark.nightly


def status(code: int) -> APIError:
    response = Response()
    response.status_code = code
    return (NotFound if code == 404 else APIError)("refused", response=response)


class FakeDaemon:
    """Answers each removal with the result of a function of the container and the number of the attempt."""

    def __init__(self, answer: Callable[[str, int], Exception | None]):
        self.api = self
        self.requests: list[str] = []
        self.waited: list[str] = []
        self._answer = answer

    def remove_container(self, container: str, **_: Any) -> None:
        self.requests.append(container)
        if (error := self._answer(container, self.requests.count(container))) is not None:
            raise error

    def wait(self, container: str, **_: Any) -> None:
        self.waited.append(container)
        raise status(404)


@each_row("code, requests, waited", [(409, ["a"], ["a"]), (500, ["a", "a"], [])])
def test_a_removal_in_progress_is_awaited_and_a_failed_one_retried(code: int, requests: list[str], waited: list[str]):
    daemon: Any = FakeDaemon(lambda container, tries: status(code) if tries == 1 else None)
    remove(daemon, "a")
    assert (daemon.requests, daemon.waited) == (requests, waited)


def test_a_failed_removal_does_not_stop_the_others():
    names = [f"broken-{number}" for number in range(8)] + ["whole"]
    daemon: Any = FakeDaemon(lambda container, tries: None if container == "whole" else KeyError("HOME"))
    remover = Remover(daemon)
    for name in names:
        remover.remove(name)
    assert remover.wait(10)
    assert sorted(daemon.requests) == names
