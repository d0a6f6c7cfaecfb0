"""Containers are removed although the daemon fails, and a failed removal does not stop the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("docker", reason="needs the [docker] extra")

from docker.errors import APIError, NotFound
from requests import Response

from agentgym.tools.sandbox.containers.removal import Remover, remove

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


def test_a_removal_in_progress_is_awaited():
    daemon: Any = FakeDaemon(lambda container, tries: status(409))
    remove(daemon, "a")
    assert daemon.waited == ["a"]


def test_a_failed_removal_is_retried():
    daemon: Any = FakeDaemon(lambda container, tries: status(500) if tries == 1 else None)
    remove(daemon, "a")
    assert daemon.requests == ["a", "a"]


def test_a_failed_removal_does_not_stop_the_others(caplog: pytest.LogCaptureFixture):
    names = [f"broken-{number}" for number in range(8)] + ["whole"]
    daemon: Any = FakeDaemon(lambda container, tries: None if container == "whole" else KeyError("HOME"))
    remover = Remover(daemon)
    for name in names:
        remover.remove(name)
    assert remover.wait(10)
    assert sorted(daemon.requests) == names
    assert len(caplog.records) == 8
