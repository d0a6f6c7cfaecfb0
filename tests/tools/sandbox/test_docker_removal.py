"""Containers are removed whatever the daemon answers, and a removal that breaks keeps no other from its turn."""

from __future__ import annotations

import time
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
    """Answers each removal with what a function makes of the container and the number of the try."""

    def __init__(self, answer: Callable[[str, int], Exception | None]):
        self.api = self
        self.asked: list[str] = []
        self.waited: list[str] = []
        self._answer = answer

    def remove_container(self, container: str, **_: Any) -> None:
        self.asked.append(container)
        if (error := self._answer(container, self.asked.count(container))) is not None:
            raise error

    def wait(self, container: str, **_: Any) -> None:
        time.sleep(0.2)
        self.waited.append(container)
        raise status(404)


def test_a_removal_that_is_under_way_is_waited_for():
    daemon: Any = FakeDaemon(lambda container, tries: status(409))
    remove(daemon, "a")
    assert daemon.waited == ["a"]


def test_a_daemon_that_fails_once_is_asked_again():
    daemon: Any = FakeDaemon(lambda container, tries: status(500) if tries == 1 else None)
    remove(daemon, "a")
    assert daemon.asked == ["a", "a"]


def test_a_removal_that_breaks_keeps_no_other_from_its_turn(caplog: pytest.LogCaptureFixture):
    names = [f"broken-{number}" for number in range(8)] + ["whole"]
    daemon: Any = FakeDaemon(lambda container, tries: None if container == "whole" else KeyError("HOME"))
    remover = Remover(daemon)
    for name in names:
        remover.remove(name)
    assert remover.wait(10)
    assert sorted(daemon.asked) == names
    assert len(caplog.records) == 8
