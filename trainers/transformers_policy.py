"""`TransformersPolicy`: samples many conversations at once from any transformers causal LM, in this process.

Requests join the batch at any step and leave it when they are done. The cache keeps what a conversation has computed
for its next turn. As in a serving engine, no turn waits for the slowest row.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

import torch

from agentgym.errors import UsageError
from agentgym.foreign.errors import for_future
from agentgym.policy import Codec, Finish, Generation
from agentgym.trainers.model_thread import own_thread
from agentgym.trainers.slots import SlotCache


@dataclass(frozen=True)
class Sampling:
    """How to draw tokens."""

    temperature: float = 1.0
    """0 takes the likeliest token."""
    seed: int = 0


@dataclass
class _Session:
    """One conversation: its slot in the cache, and how many positions of the slot are filled."""

    slot: int
    filled: int = 0


@dataclass
class _Request:
    """One turn to sample."""

    session: str
    ids: list[int]
    budget: int
    draws: random.Random
    done: asyncio.Future[Generation]
    timeout_s: float | None
    seat: _Session = field(init=False)
    """A second reference: a conversation may be released while a pass over its last request is still running."""
    deadline: float = math.inf
    """When to cut the turn off (`time.monotonic`); set when sampling begins."""
    sampled: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    def begin(self) -> None:
        """Start the clock."""
        if self.timeout_s is not None:
            self.deadline = time.monotonic() + self.timeout_s

    def pending(self, filled: int) -> list[int]:
        """Return the tokens that the cache does not hold yet."""
        known = len(self.ids)
        return self.ids[filled:] + self.sampled if filled < known else self.sampled[filled - known :]


class TransformersPolicy:
    """A token policy over a transformers model.

    Args:
        model: A causal LM. It may be in training; each step uses its current weights.
        codec: Converts between messages and token ids.
        end_ids: Tokens that end a turn.
        context: Longest conversation, in tokens.
        name: Its name in reports.
        slots: Conversations to sample at the same time.
        sampling: How to draw tokens.
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
    ):
        self.name, self.codec, self.context = name, codec, context
        self.version = 0
        self.sampling = sampling or Sampling()
        self._model = model
        self._end_ids = frozenset(end_ids)
        self._slots = slots
        self._cache: SlotCache | None = None
        self._free = list(range(slots))
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._waiting: deque[_Request] = deque()
        self._active: dict[str, _Request] = {}
        self._worker: asyncio.Task[None] | None = None
        self._thread = own_thread("sampling")

    def use(self, model: Any) -> None:
        """Sample from `model` from now on."""
        self._model = model
        self._cache = None
        self.updated(self.version)

    async def generate(
        self, ids: Sequence[int], max_new_tokens: int, session: str, *, timeout_s: float | None = None
    ) -> Generation:
        """Sample one turn after `ids`. Calls with the same `session` must extend each other."""
        loop = asyncio.get_running_loop()
        # Each turn has its own generator, so its tokens depend only on the conversation, not on the rest of the batch.
        draws = random.Random(f"{self.sampling.seed}/{self.version}/{session}/{len(ids)}")
        request = _Request(session, list(ids), max_new_tokens, draws, loop.create_future(), timeout_s)
        self._waiting.append(request)
        if self._worker is None or self._worker.done():
            self._worker = loop.create_task(self._work())
        try:
            return await request.done
        except asyncio.CancelledError:
            self._active.pop(session, None)
            raise

    def release(self, session: str) -> None:
        """Drop a conversation and free its slot."""
        if (kept := self._sessions.pop(session, None)) is not None:
            heappush(self._free, kept.slot)

    def updated(self, version: int) -> None:
        """Discard everything computed before, since the weights have changed."""
        self.version = version
        for session in list(self._sessions):
            self.release(session)

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
                    if self._is_done(request):
                        self._finish(request)
                # Let conversations that have just finished a turn run before the next pass is assembled.
                await asyncio.sleep(0)
        except Exception as error:
            self._fail(error)

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
                if (slot := self._slot_for(request.session)) is None:
                    return
                request.seat = self._sessions.setdefault(request.session, _Session(slot))
                self._sessions.move_to_end(request.session)
                self._active[request.session] = request
                request.begin()
            self._waiting.popleft()

    def _slot_for(self, session: str) -> int | None:
        """Return the session's slot, a free one, or that of the conversation whose environment has taken longest."""
        if (kept := self._sessions.get(session)) is not None:
            return kept.slot
        if self._free:
            return heappop(self._free)
        for name, kept in self._sessions.items():
            if name not in self._active:
                del self._sessions[name]
                return kept.slot
        return None

    def _is_done(self, request: _Request) -> bool:
        return (
            bool(request.sampled) and (request.sampled[-1] in self._end_ids or len(request.sampled) >= request.budget)
        ) or time.monotonic() >= request.deadline

    def _finish(self, request: _Request) -> None:
        self._active.pop(request.session, None)
        if not request.done.done():
            request.done.set_result(
                Generation(request.sampled, request.logprobs, self._finish_of(request), self.version)
            )

    def _finish_of(self, request: _Request) -> Finish:
        if request.sampled and request.sampled[-1] in self._end_ids:
            return "stop"
        return "length" if len(request.sampled) >= request.budget else "time"

    def _fail(self, error: Exception) -> None:
        for request in [*self._active.values(), *self._waiting]:
            if not request.done.done():
                request.done.set_exception(error)
        self._active.clear()
        self._waiting.clear()

    @torch.inference_mode()
    def _advance(self, requests: list[_Request]) -> None:
        """Sample one token for each request, in two passes: for requests with one pending token, and for all others."""
        was_training = self._model.training
        self._model.eval()
        try:
            chunks = [(request, request.pending(request.seat.filled)) for request in requests]
            for group in ([c for c in chunks if len(c[1]) == 1], [c for c in chunks if len(c[1]) > 1]):
                if group:
                    self._draw(group, self._forward(group))
        finally:
            self._model.train(was_training)

    def _forward(self, group: list[tuple[_Request, list[int]]]) -> torch.Tensor:
        """Run the model over the pending tokens of each row; return the last logits, `(rows, vocabulary)`."""
        if self._cache is None:
            self._cache = SlotCache(self._model.config.num_hidden_layers, self._slots, self.context)
        sessions = [request.seat for request, _ in group]
        chunks = {s.slot: (s.filled, pending) for s, (_, pending) in zip(sessions, group, strict=True)}
        slots = self._rows_for(chunks)
        logits = self._run(slots, [chunks.get(slot, (0, [])) for slot in slots])
        for session, (_, pending) in zip(sessions, group, strict=True):
            session.filled += len(pending)
        row_of = {slot: row for row, slot in enumerate(slots)}
        return logits[[row_of[session.slot] for session in sessions]]

    def _rows_for(self, chunks: Mapping[int, Any]) -> list[int]:
        """Return the slots to run. If most of the first slots take part, idle ones run too: copying would cost more."""
        span = max(chunks) + 1
        return list(range(span)) if 2 * len(chunks) >= span else list(chunks)

    def _run(self, slots: list[int], chunks: list[tuple[int, list[int]]]) -> torch.Tensor:
        """Run one forward pass over `(filled, pending)` chunks, aligned to the right; return the last logits."""
        assert self._cache is not None
        device, padding = self._model.device, self._cache.length
        width = max(len(pending) for _, pending in chunks)
        visible = max(filled + len(pending) for filled, pending in chunks)
        ids = torch.tensor([[0] * (width - len(pending)) + pending for _, pending in chunks])
        places = torch.tensor(
            [[padding] * (width - len(p)) + list(range(filled, filled + len(p))) for filled, p in chunks]
        )
        seen_to = torch.where(places == padding, 0, places)
        mask = torch.arange(visible)[None, None, :] <= seen_to[:, :, None]
        self._cache.aim(torch.tensor(slots, device=device), places.to(device), visible)
        output = self._model(
            input_ids=ids.to(device),
            position_ids=seen_to.to(device),
            attention_mask=_additive(mask, self._model.dtype)[:, None].to(device),
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1].float()

    def _draw(self, group: list[tuple[_Request, list[int]]], logits: torch.Tensor) -> None:
        """Draw a token for each row: invert its distribution at a number from the row's own generator."""
        temperature = self.sampling.temperature
        logprobs = torch.log_softmax(logits / temperature if temperature > 0 else logits, dim=-1)
        if temperature > 0:
            points = torch.tensor([[request.draws.random()] for request, _ in group])
            cumulative = logprobs.exp().cumsum(dim=-1)
            points = points.to(logits.device) * cumulative[:, -1:]
            chosen = torch.searchsorted(cumulative, points, right=True).clamp_(max=logits.shape[-1] - 1)
        else:
            chosen = logprobs.argmax(dim=-1, keepdim=True)
        picked = logprobs.gather(1, chosen)[:, 0].tolist()
        for (request, _), token, logprob in zip(group, chosen[:, 0].tolist(), picked, strict=True):
            request.sampled.append(token)
            request.logprobs.append(logprob)


def _additive(mask: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Convert a boolean mask (True means visible) into the numbers that attention adds to its scores."""
    return torch.zeros(mask.shape, dtype=dtype).masked_fill_(~mask, torch.finfo(dtype).min)
