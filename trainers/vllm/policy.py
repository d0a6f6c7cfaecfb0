"""`VLLMPolicy`: samples with a vLLM engine in this process (TRL's "colocate" mode); no turn waits for others.

Tested with vLLM on CPUs, where its tokens and log-probabilities equal those of `TransformersPolicy`, and with a fake
engine; not yet on a GPU. Each process has one engine (no tensor parallelism). In training, TRL loads the new weights
before each batch, and `agentgym.trainers.vllm.sync` checks that they have arrived.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch

from agentgym.base.errors import InfrastructureError, UsageError, require
from agentgym.core.foreign import for_future
from agentgym.core.policy import Codec, Finish, Generation
from agentgym.trainers.pictures import opened
from agentgym.trainers.transformers_policy import Sampling, own_thread


@dataclass(eq=False)
class _Request:
    """One turn to sample."""

    id: str
    ids: list[int]
    params: Any
    done: asyncio.Future[Generation]
    timeout_s: float | None
    pictures: tuple[bytes, ...] = ()
    """PNG files, one for each placeholder in `ids`."""
    on_tokens: Callable[[Sequence[int]], None] | None = None
    reported: int = 0
    """Number of sampled tokens that have been reported."""
    deadline: float = math.inf
    """Time limit of the turn (`time.monotonic`); set when the engine receives it."""
    so_far: Any = None
    """The engine's latest output for it."""

    def report(self) -> None:
        """Report the tokens sampled since the last call."""
        if self.on_tokens is None or self.done.done():
            return
        if new := self.so_far.outputs[0].token_ids[self.reported :]:
            self.reported += len(new)
            self.on_tokens(new)

    def begin(self) -> None:
        """Start the clock."""
        if self.timeout_s is not None:
            self.deadline = time.monotonic() + self.timeout_s

    def prompt(self) -> dict[str, Any]:
        """Return the engine's prompt. The engine replaces each placeholder with the tokens of a picture."""
        if not self.pictures:
            return {"prompt_token_ids": self.ids}
        return {"prompt_token_ids": self.ids, "multi_modal_data": {"image": [*map(opened, self.pictures)]}}


class VLLMPolicy:
    """A token policy over a vLLM engine: `add_request`, `step`, `has_unfinished_requests` and `abort_request`.

    Args:
        codec: Converts between messages and token ids.
        end_ids: Tokens that end a turn.
        context: Longest conversation, in tokens.
        name: The policy's name in reports.
        sampling: How to draw tokens.
        make_params: Creates vLLM's sampling parameters; `vllm.SamplingParams` by default.
        picture_tokens: Counts the tokens of a picture (PNG) in addition to its placeholder, for a vision model and a
            codec with placeholders.

    Raises:
        MissingExtra: vLLM is not installed.
    """

    def __init__(
        self,
        codec: Codec,
        *,
        end_ids: Sequence[int],
        context: int,
        name: str = "vllm",
        sampling: Sampling | None = None,
        make_params: Callable[..., Any] | None = None,
        picture_tokens: Callable[[bytes], int] | None = None,
    ):
        self.name, self.codec, self.context = name, codec, context
        self.streams = True
        self.sees, self._picture_tokens = picture_tokens is not None, picture_tokens
        self.version = 0
        self.sampling = sampling or Sampling()
        self._end_ids = list(end_ids)
        self._make_params = make_params or _sampling_params()
        self._engine: Any = None
        self._numbers = count()
        self._new: list[_Request] = []
        self._running: dict[str, _Request] = {}
        self._given_up: list[str] = []
        self._worker: asyncio.Task[None] | None = None
        self._thread = own_thread("vllm")

    def use(self, engine: Any) -> None:
        """Sample with `engine` (`vllm.LLM.llm_engine`) from now on."""
        self._engine = engine

    async def generate(
        self,
        ids: Sequence[int],
        max_new_tokens: int,
        session: str,
        *,
        timeout_s: float | None = None,
        pictures: Sequence[bytes] = (),
        on_tokens: Callable[[Sequence[int]], None] | None = None,
    ) -> Generation:
        """Sample one turn after `ids`. vLLM's prefix cache holds the earlier turns of `session`."""
        loop = asyncio.get_running_loop()
        params = self._params(ids, max_new_tokens, session)
        name, done = f"{session}/{next(self._numbers)}", loop.create_future()
        request = _Request(name, list(ids), params, done, timeout_s, tuple(pictures), on_tokens)
        self._new.append(request)
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        try:
            return await request.done
        except asyncio.CancelledError:
            self._forget(request)
            raise

    def picture_tokens(self, picture: bytes) -> int:
        """Return the number of tokens of a picture in addition to its placeholder."""
        return 0 if self._picture_tokens is None else self._picture_tokens(picture)

    def release(self, session: str) -> None:
        """Do nothing: vLLM manages its prefix cache by content."""

    def abandon(self) -> None:
        """Abort cancelled turns. Call this when no turn is being sampled.

        An engine with an unfinished turn keeps its prefix cache when its weights change.
        """
        given_up, self._given_up = self._given_up, []
        if given_up:
            self._thread.submit(self._step, [], given_up).result()

    def updated(self, version: int) -> None:
        """Record that the weights have changed. TRL resets the prefix cache when it loads them."""
        self.version = version

    def _params(self, ids: Sequence[int], max_new_tokens: int, session: str) -> Any:
        # Each turn has its own seed, so its tokens depend only on the conversation, not on the rest of the batch.
        key = f"{self.sampling.seed}/{self.version}/{session}/{len(ids)}".encode()
        return self._make_params(
            max_tokens=max_new_tokens,
            temperature=self.sampling.temperature,
            stop_token_ids=self._end_ids,
            logprobs=0,
            detokenize=False,
            seed=int.from_bytes(hashlib.sha256(key).digest()[:4], "big"),
        )

    def _forget(self, request: _Request) -> None:
        if request in self._new:
            self._new.remove(request)
        elif self._running.pop(request.id, None) is not None:
            self._given_up.append(request.id)

    async def _work(self) -> None:
        """Step the engine until no request is left."""
        loop = asyncio.get_running_loop()
        while self._new or self._running or self._given_up:
            new, given_up = self._new, self._given_up
            self._new, self._given_up = [], []
            self._running.update({request.id: request for request in new})
            try:
                outputs = await loop.run_in_executor(self._thread, self._step, new, given_up)
                self._take(outputs)
            except asyncio.CancelledError:
                # The loop is closing, and the engine may have received these requests: abort all of them.
                self._given_up = [*given_up, *self._running, *self._given_up]
                self._running.clear()
                raise
            except BaseException as error:
                self._fail(error)
                return
            # Let conversations with a finished turn continue before the next step.
            await asyncio.sleep(0)

    def _take(self, outputs: list[Any]) -> None:
        """Deliver finished turns, and cut off turns past their time limit."""
        for output in outputs:
            if (request := self._running.get(output.request_id)) is None:
                continue
            request.so_far = output
            request.report()
            if output.finished:
                del self._running[request.id]
                _settle(request, _finish_of(output), self.version)
        now = time.monotonic()
        for request in [request for request in self._running.values() if now >= request.deadline]:
            self._forget(request)
            _settle(request, "time", self.version)

    def _step(self, new: list[_Request], given_up: list[str]) -> list[Any]:
        if self._engine is None:
            raise InfrastructureError("the vLLM policy has no engine yet; call use(llm.llm_engine)")
        if given_up:
            self._engine.abort_request(given_up)
        for request in new:
            self._engine.add_request(request.id, request.prompt(), request.params)
            request.begin()
        return self._engine.step() if self._engine.has_unfinished_requests() else []

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, torch.OutOfMemoryError):
            first = str(error).splitlines()[0]
            error = UsageError(f"out of memory while sampling: {first} Lower max_in_flight, context or vllm_memory.")
        requests = [*self._running.values(), *self._new]
        self._given_up += self._running
        self._running.clear()
        self._new = []
        for request in requests:
            if not request.done.done():
                request.done.set_exception(for_future(error))


def _settle(request: _Request, finish: Finish, version: int) -> None:
    """Pass what has been sampled of a turn to the coroutine that waits for it."""
    if request.done.done():
        return
    ids: list[int] = []
    logprobs: list[float] = []
    if request.so_far is not None:
        sampled = request.so_far.outputs[0]
        ids = list(sampled.token_ids)
        logprobs = [chances[token].logprob for token, chances in zip(ids, sampled.logprobs, strict=True)]
    request.done.set_result(Generation(ids, logprobs, finish, version))


def _finish_of(output: Any) -> Finish:
    return "stop" if output.outputs[0].finish_reason == "stop" else "length"


def _sampling_params() -> Callable[..., Any]:
    require("vllm", "vllm")
    from vllm import SamplingParams  # type: ignore[import-not-found]

    return SamplingParams
