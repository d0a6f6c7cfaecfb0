"""`TransformersPolicy`: samples many conversations at once from any transformers causal LM, in this process.

Requests join the batch at any step and leave it when they are done, so no turn waits for the slowest one. The cache
keeps a conversation's keys and values for its next turn. `docs/vllm.md` compares this policy with vLLM and with
transformers' own continuous batching.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from agentgym.base.errors import UsageError
from agentgym.core.foreign import describe, for_future
from agentgym.core.policy import Codec, Finish, Generation
from agentgym.trainers.adapters import MergedWeights
from agentgym.trainers.cache import GrowingCache, SlotCache, give_back
from agentgym.trainers.packing import CannotPack, PackedPlan, PackedRow
from agentgym.trainers.passes import Replays, SamplingWay, draw, run, run_whole, way_of
from agentgym.trainers.seating import CacheSlot, Seating, common

_ROUND_TOKENS = 4096
"""Limit of prompt tokens per pass, so that running conversations do not wait long."""

_WORTH_WAITING = 32
"""A conversation waits for another one if this then saves more than this many tokens."""

_BETWEEN_STARTS = 8
"""With CUDA graphs, new turns start together after this many replayed passes."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Sampling:
    """How to draw tokens."""

    temperature: float = 1.0
    """0 takes the likeliest token."""
    seed: int = 0


@dataclass(eq=False)
class _Request:
    """One turn to sample."""

    session: str
    ids: list[int]
    budget: int
    draws: random.Random
    done: asyncio.Future[Generation]
    timeout_s: float | None
    on_tokens: Callable[[Sequence[int]], None] | None = None
    reported: int = 0
    """Number of sampled tokens that have been reported."""
    seat: CacheSlot = field(init=False)
    """Kept here, since a conversation may be released during a pass over its last request."""
    deadline: float = math.inf
    """Time limit of the turn (`time.monotonic`); set when sampling begins."""
    is_released: bool = False
    """Whether its conversation has been released since."""
    sampled: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    created: float = field(default_factory=time.monotonic)
    queued_s: float | None = None
    """Seconds in the queue; set when sampling begins."""

    def begin(self) -> None:
        """Start the clock; later calls change nothing."""
        if self.queued_s is None:
            self.queued_s = time.monotonic() - self.created
        if self.timeout_s is not None and self.deadline == math.inf:
            self.deadline = time.monotonic() + self.timeout_s

    def report(self) -> None:
        """Report the tokens sampled since the last call."""
        if self.on_tokens is not None and not self.done.done() and (new := self.sampled[self.reported :]):
            self.reported += len(new)
            self.on_tokens(new)

    def row(self) -> PackedRow:
        """Return the tokens that the cache does not hold yet."""
        filled, length = len(self.seat.tokens), len(self.ids)
        pending = self.ids[filled:] + self.sampled if filled < length else self.sampled[filled - length :]
        return PackedRow(self.seat.slot, filled, pending)

    @property
    def room(self) -> int:
        """Positions that the conversation may fill by the end of its turn."""
        return len(self.ids) + self.budget


class TransformersPolicy:
    """A token policy over a transformers model. It can stream tokens (`StreamingPolicy`).

    Args:
        model: A causal LM. It may be in training; each step uses its current weights.
        codec: Converts between messages and token ids.
        end_ids: Tokens that end a turn.
        context: Longest conversation, in tokens.
        name: The policy's name in reports.
        slots: Maximum number of concurrent conversations.
        sampling: How to draw tokens.
        cache_bytes: Maximum size of the cache; by default half of the free memory at the first conversation.
            Conversations that do not fit wait.
        replays: Record the passes over sampled tokens as CUDA graphs and replay them; by default on GPUs.
    """

    def __init__(
        self,
        model: Any,
        codec: Codec,
        *,
        end_ids: Sequence[int],
        context: int,
        name: str = "transformers",
        slots: int = 128,
        sampling: Sampling | None = None,
        cache_bytes: int | None = None,
        replays: bool | None = None,
    ):
        self.name, self.codec, self.context = name, codec, context
        self.streams = True
        self.version = 0
        self.sampling = sampling or Sampling()
        self._model, self._way = _playable(model)
        self._end_ids = frozenset(end_ids)
        self._slots = slots
        self._cache_bytes = cache_bytes
        self._cache: GrowingCache | None = None
        self._seating = Seating(slots)
        self._merged: MergedWeights | None = None
        self._may_replay = replays
        self._replays: Replays | None = None
        self._replayed = 0
        """Replayed passes since new turns last started."""
        self._waiting: deque[_Request] = deque()
        self._active: dict[str, _Request] = {}
        self._worker: asyncio.Task[None] | None = None
        self._thread = own_thread("sampling")

    def use(self, model: Any) -> None:
        """Sample from `model` from now on."""
        self._model, self._way = _playable(model)
        self.updated(self.version)

    async def generate(
        self,
        ids: Sequence[int],
        max_new_tokens: int,
        session: str,
        *,
        timeout_s: float | None = None,
        on_tokens: Callable[[Sequence[int]], None] | None = None,
    ) -> Generation:
        """Sample one turn after `ids`. Calls with the same `session` must extend each other."""
        self._check_known(ids)
        loop = asyncio.get_running_loop()
        # Each turn has its own generator, so its tokens depend only on the conversation, not on the rest of the batch.
        draws = random.Random(f"{self.sampling.seed}/{self.version}/{session}/{len(ids)}")
        request = _Request(session, list(ids), max_new_tokens, draws, loop.create_future(), timeout_s, on_tokens)
        self._waiting.append(request)
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        try:
            return await request.done
        except asyncio.CancelledError:
            self._leave(request)
            raise

    def _check_known(self, ids: Sequence[int]) -> None:
        """Raise `UsageError` for a token beyond the model's vocabulary."""
        vocabulary = getattr(self._model.config.get_text_config(), "vocab_size", None)
        if vocabulary is not None and max(ids, default=0) >= vocabulary:
            raise UsageError(
                f"the tokenizer produced token {max(ids)}, but the model has {vocabulary:,} tokens: they do not match. "
                "Save the model with the tokenizer that it was trained with"
            )

    def release(self, session: str) -> None:
        """Drop a conversation and free its slot; during a turn, after that turn.

        The slot keeps its content for conversations with the same prefix.
        """
        for request in (*self._waiting, *self._active.values()):
            request.is_released = request.is_released or request.session == session
        if session not in self._active:
            self._seating.release(session)
        if self._worker is None or self._worker.done():
            self._rest()

    def _leave(self, request: _Request) -> None:
        """Remove a turn from further passes."""
        if self._active.get(request.session) is request:
            del self._active[request.session]
        if request.is_released:
            self._seating.release(request.session)

    def _rest(self) -> None:
        """Free the cache if no conversation is left, since a model in training needs the memory for its next update."""
        if self._model.training and not self._seating.taken:
            self._seating.forget()
            self._cache, self._replays = None, None
            give_back()

    def updated(self, version: int) -> None:
        """Discard all caches, since the weights have changed. Waits for a running pass of turns that were given up."""
        if self._worker is not None:
            self._thread.submit(int).result()
        self.version = version
        self._seating = Seating(self._slots)
        self._cache, self._replays, self._merged = None, None, None

    async def _work(self) -> None:
        """Run forward passes until no request is left."""
        try:
            while self._waiting or self._active:
                self._admit()
                requests = list(self._active.values())
                failure = await asyncio.get_running_loop().run_in_executor(self._thread, self._advanced, requests)
                if failure is not None:
                    self._fail(failure)
                    return
                for request in requests:
                    request.report()
                    if self._is_done(request):
                        self._finish(request)
                # Let conversations with a finished turn continue before the next pass is assembled.
                await asyncio.sleep(0)
        except Exception as error:
            self._fail(error)
        else:
            self._rest()

    def _advanced(self, requests: list[_Request]) -> Exception | None:
        """Run one pass; return the error if it fails."""
        try:
            self._advance(requests)
        except torch.OutOfMemoryError as error:
            first = str(error).splitlines()[0]
            return UsageError(f"out of memory while sampling: {first} Lower max_in_flight or context.")
        except BaseException as error:
            return for_future(error)
        return None

    def _admit(self) -> None:
        while self._waiting:
            request = self._waiting[0]
            if not request.done.cancelled():
                if not self._make_room(request):
                    return
                seat = self._seating.take(request.session, request.ids, self._active)
                if seat is None:
                    return
                request.seat = seat
                self._active[request.session] = request
                request.begin()
            self._waiting.popleft()

    def _make_room(self, request: _Request) -> bool:
        """Grow the cache for a request; return whether it has room. Longer conversations leave fewer slots."""
        if self._cache is None:
            keeps = self._way is not SamplingWay.WHOLE
            self._cache = GrowingCache(self._model, self._cache_bytes, self.context, keeps=keeps)
            on_gpu = self._model.device.type == "cuda"
            if self._way is SamplingWay.PACKED and (on_gpu if self._may_replay is None else self._may_replay):
                self._replays = Replays(self._model, self._cache.slots, self._prepared)
        slots = min(self._slots, self._cache.slots_for(request.room))
        if len(self._active) >= slots:
            return False
        self._cache.lengthen(request.room)
        for session in self._seating.shrink(slots):
            if (evicted := self._active.pop(session, None)) is not None:
                self._waiting.insert(1, evicted)
        return True

    def _is_done(self, request: _Request) -> bool:
        return (
            bool(request.sampled) and (request.sampled[-1] in self._end_ids or len(request.sampled) >= request.budget)
        ) or time.monotonic() >= request.deadline

    def _finish(self, request: _Request) -> None:
        self._leave(request)
        if not request.done.done():
            request.done.set_result(
                Generation(request.sampled, request.logprobs, self._finish_of(request), self.version, request.queued_s)
            )

    def _finish_of(self, request: _Request) -> Finish:
        if request.sampled and request.sampled[-1] in self._end_ids:
            return "stop"
        return "length" if len(request.sampled) >= request.budget else "time"

    def _fail(self, error: Exception) -> None:
        for request in [*self._active.values(), *self._waiting]:
            self._leave(request)
            if not request.done.done():
                request.done.set_exception(error)
        self._active.clear()
        self._waiting.clear()

    def _advance(self, requests: list[_Request]) -> None:
        """Sample one token for each request that fits into this pass."""
        if not requests:
            return
        assert self._cache is not None
        # A third faster than `no_grad` for a small model. FSDP would keep these tensors in the buffers of a model that
        # learns, but no sharded model is sampled from here (`refuse_sharded`).
        with torch.inference_mode():
            self._cache.widen(len(self._seating))
            continuing = [request for request in requests if len(request.row().pending) == 1]
            new = [request for request in requests if len(request.row().pending) > 1]
            if self._replay(continuing):
                self._replayed += 1
                if not new or self._replayed < _BETWEEN_STARTS:
                    return
                continuing = []
            self._replayed = 0
            with self._prepared():
                self._sample(continuing)
                self._sample_first(self._cache.slots, new)

    @contextmanager
    def _prepared(self) -> Iterator[None]:
        """Prepare the model for sampling. This visits every module, which takes milliseconds."""
        if self._merged is None:
            self._merged = MergedWeights(self._model)
        was_training = self._model.training
        if was_training:
            self._model.eval()
        try:
            with self._merged.swapped():
                yield
        finally:
            if was_training:
                self._model.train()

    def _sample_first(self, cache: SlotCache, requests: list[_Request]) -> None:
        """Sample the first token of turns. A common prefix is computed once and copied."""
        room = _ROUND_TOKENS
        while requests and room > 0:
            batch = self._sharing(cache, requests, room)
            room -= sum(len(request.row().pending) for request in batch)
            self._sample(batch)
            requests = [request for request in requests if request not in batch]

    def _sharing(self, cache: SlotCache, requests: list[_Request], room: int) -> list[_Request]:
        """Return at least one request to compute now, and others that fit into `room` tokens, with known prefixes
        copied.

        A request waits if another one in the batch computes a part of its prefix.
        """
        batch: list[_Request] = []
        for request in requests:
            donor, held = self._seating.donor(request.seat, request.ids)
            new = len(request.ids) - held
            if batch and new > room:
                continue
            if new > _WORTH_WAITING and any(common(request.ids, it.ids) - held > _WORTH_WAITING for it in batch):
                continue
            _share(cache, donor, request, held)
            batch.append(request)
            room -= new
        return batch

    def _sample(self, requests: list[_Request]) -> None:
        """Run one pass and draw a token for each request."""
        if not requests:
            return
        assert self._cache is not None
        cache, of = self._cache.slots, {request.seat.slot: request for request in requests}
        rows = [request.row() for request in requests]
        if self._way is SamplingWay.PACKED:
            try:
                plan = PackedPlan(rows, self._model.device)
                order, logits = plan.rows, run(self._model, cache, plan)
            except CannotPack:
                self._way = SamplingWay.ALONE
                return self._sample(requests)
        elif self._way is SamplingWay.ALONE:
            plans = [PackedPlan([row], self._model.device) for row in rows]
            order, logits = rows, torch.cat([run(self._model, cache, plan, alone=True) for plan in plans])
        else:
            whole = [[*of[row.slot].seat.tokens, *row.pending] for row in rows]
            order, logits = rows, torch.cat([run_whole(self._model, ids) for ids in whole])
        for row in order:
            of[row.slot].seat.tokens.extend(row.pending)
        self._draw([of[row.slot] for row in order], logits)

    def _replay(self, requests: list[_Request]) -> bool:
        """Draw a token for each request (with one new token) from a CUDA graph; return whether that succeeded."""
        replays = self._replays  # a local reference: new weights reset the attribute
        if replays is None or not requests:
            return False
        rows = [request.row() for request in requests]
        try:
            logits = replays.run(rows)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, CannotPack) as error:
            _log.warning("%s is sampled without CUDA graphs, which is slower: %s", self.name, describe(error))
            self._may_replay, self._replays = False, None
            return False
        for request, row in zip(requests, rows, strict=True):
            request.seat.tokens.extend(row.pending)
        self._draw(requests, logits)
        return True

    def _draw(self, requests: Sequence[_Request], logits: torch.Tensor) -> None:
        """Draw a token for each request."""
        tokens, logprobs = draw(logits, self.sampling.temperature, [request.draws for request in requests])
        if any(map(math.isnan, logprobs)):
            raise UsageError(
                f"the probabilities of {self.name!r} are not numbers: its weights are broken, or overflow in "
                f"{self._model.dtype}. Use another checkpoint or precision"
            )
        for request, token, logprob in zip(requests, tokens, logprobs, strict=True):
            request.sampled.append(token)
            request.logprobs.append(logprob)


def own_thread(name: str) -> ThreadPoolExecutor:
    """Return an executor with one thread, for passes that wait neither for environments nor for each other.

    It is on the caller's CUDA device, since the current device belongs to a thread.
    """
    if not torch.cuda.is_available():
        return ThreadPoolExecutor(1, name)
    return ThreadPoolExecutor(1, name, torch.cuda.set_device, (torch.cuda.current_device(),))


def _playable(model: Any) -> tuple[Any, SamplingWay]:
    """Return a model, and how to sample from it.

    If the model is not in training mode, all its modules leave it: adapters that were added later may still be in
    training mode, with dropout.
    """
    return model if model.training else model.eval(), way_of(model)


def _share(cache: SlotCache, donor: CacheSlot, request: _Request, held: int) -> None:
    """Copy a conversation's prefix from the slot that holds it."""
    own = request.seat
    if donor is not own:
        cache.copy(donor.slot, own.slot, slice(len(own.tokens), held))
        own.tokens += request.ids[len(own.tokens) : held]
