"""A model that the hub does not provide: one question to the hub, one line of error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs the [train] extra")

from huggingface_hub import constants

from agentgym.base.errors import UsageError
from agentgym.trainers.hub import options_for
from tests.rows import each_row
from tests.servers import QuietHandler, serving

pytestmark = [pytest.mark.real, pytest.mark.train]

MODEL = "some-org/some-model"
COMMIT = "0" * 40


def handler(questions: list[str], status: int, code: str | None) -> type[QuietHandler]:
    """A model hub that gives the same answer to every question, and records the questions about models."""

    class Answer(QuietHandler):
        def do_HEAD(self) -> None:
            if "/resolve/" in self.path:  # the client has questions of its own, too
                questions.append(self.path)
            self.send_response(status)
            headers = {"X-Repo-Commit": COMMIT, "ETag": '"etag"', "Content-Length": "0"}
            for name, value in (headers | ({} if code is None else {"X-Error-Code": code})).items():
                self.send_header(name, value)
            self.end_headers()

        do_GET = do_HEAD

    return Answer


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[str]]]:
    """Starts a hub that gives one answer, and points the client, with a cache of its own, at it."""

    def point(url: str) -> None:
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    point("http://127.0.0.1:9")
    with ExitStack() as stack:

        def start(status: int, code: str | None = None) -> list[str]:
            questions: list[str] = []
            point(stack.enter_context(serving(handler(questions, status, code))))
            return questions

        yield start


def put_into_cache() -> None:
    folder = Path(constants.HF_HUB_CACHE) / f"models--{MODEL.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    (folder / "snapshots" / COMMIT).mkdir(parents=True)
    (folder / "snapshots" / COMMIT / "config.json").write_text("{}")


def test_a_model_that_the_hub_has_is_loaded_as_usual_after_one_question(hub: Any):
    questions = hub(200)
    assert options_for(MODEL) == {}
    assert questions == [f"/{MODEL}/resolve/main/config.json"]


@each_row(
    "status, code, why",
    [
        (404, "RepoNotFound", "has no such model; if it is private, log in with `hf auth login`"),
        (403, "GatedRepo", "it is gated; accept its terms at "),
        (503, None, "answers with an error: Server error '503 Service Unavailable'"),
    ],
)
def test_a_model_that_the_hub_does_not_provide_is_one_line_after_one_question(
    hub: Any, status: int, code: str | None, why: str
):
    questions = hub(status, code)
    with pytest.raises(UsageError) as caught:
        options_for(MODEL)
    [line] = str(caught.value).splitlines()
    assert line.startswith(f"cannot load model {MODEL!r}: ")
    assert why in line
    assert "a folder with a transformers checkpoint" in line
    assert len(questions) == 1


def test_a_hub_out_of_reach_is_one_line(hub: Any):
    with pytest.raises(UsageError, match=f"cannot load model '{MODEL}': it is not in the cache, and http.* be reached"):
        options_for(MODEL)


def test_a_model_in_the_cache_is_loaded_without_the_hub(hub: Any):
    put_into_cache()
    for status in (None, 401, 503):
        if status is not None:
            hub(status)
        assert options_for(MODEL) == {"local_files_only": True}
