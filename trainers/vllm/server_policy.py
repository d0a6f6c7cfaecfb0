"""`VLLMServerPolicy`: samples tokens with log-probabilities from vLLM servers, by ids, through `/v1/completions`.

A conversation stays at one replica while it is up. Every request carries the whole conversation, so another replica can
take over at any turn; a lost server costs only its prefix cache.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentgym.base.errors import InfrastructureError, UsageError, require
from agentgym.base.retries import doubled_s
from agentgym.core.policy import Codec, Generation
from agentgym.trainers.transformers_policy import Sampling
from agentgym.trainers.vllm.servers import headers

if TYPE_CHECKING:
    import aiohttp


_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 15.0


@dataclass
class Replica:
    """One server."""

    url: str
    failures: int = 0
    """Failures since its last answer."""
    retry_at: float = 0.0
    """If it is down, the time of the next check, in seconds of the event loop's clock."""

    @property
    def is_down(self) -> bool:
        """Whether its last answer was a failure."""
        return self.failures > 0


class ReplicaFleet:
    """Keeps each conversation at one replica, whose prefix cache then holds the earlier turns.

    Args:
        urls: The URLs of the replicas, at least one.
    """

    def __init__(self, urls: list[str]):
        self.replicas = [Replica(url) for url in urls]
        self._at: dict[str, Replica] = {}
        self._jitter = random.Random(0)

    def replica_of(self, session: str) -> Replica | None:
        """Return the replica of a conversation, by default the least busy one. `None` if all are down."""
        replica = self._at.get(session)
        if replica is not None and not replica.is_down:
            return replica
        busy = Counter(replica.url for replica in self._at.values())
        up = [replica for replica in self.replicas if not replica.is_down]
        if not up:
            return None
        self._at[session] = min(up, key=lambda replica: busy[replica.url])
        return self._at[session]

    def release(self, session: str) -> None:
        """Forget a conversation."""
        self._at.pop(session, None)

    def failed(self, replica: Replica, now: float) -> None:
        """Mark a replica as down: its conversations move, and it is checked again after a pause."""
        replica.failures += 1
        pause = doubled_s(_FIRST_PAUSE_S, replica.failures - 1, _LONGEST_PAUSE_S)
        replica.retry_at = now + pause * self._jitter.uniform(0.5, 1.0)

    def answered(self, replica: Replica) -> None:
        """Mark a replica as up."""
        replica.failures = 0

    def due(self, now: float) -> list[Replica]:
        """Return the replicas that are down and due for a check."""
        return [replica for replica in self.replicas if replica.is_down and replica.retry_at <= now]


_HEALTH_TIMEOUT_S = 5.0
_LOOK_EVERY_S = 0.2
_WATCH_EVERY_S = 5.0
_ABOUT_CONTENT = frozenset({400, 413, 422})
_NO_SUCH_MODEL = 404
_GIVEN_UP = frozenset({"abort", "error"})
"""Finish reasons of turns that a server aborted, for example when it is paused or stopped."""


class _Lost(Exception):
    """A replica gave no valid answer; another one may."""


@dataclass(frozen=True)
class _Request:
    """A request for a turn, and the version of the weights that it asks for."""

    body: dict[str, Any]
    version: int


class _Busy(Exception):
    """A replica is busy. Carries the seconds until the next attempt."""

    def __init__(self, seconds: float):
        self.seconds = seconds


class _Refused(Exception):
    """A replica rejects a request. Carries the HTTP status."""

    def __init__(self, status: int, text: str):
        super().__init__(f"the vLLM server rejects the request with status {status}: {text}")
        self.status = status


@dataclass(frozen=True)
class Adapters:
    """LoRA adapters that a run publishes for its servers: version `n` as `<name>-v<n>`, in a folder of that name."""

    name: str
    folder: Path
    """Absolute; the servers read it too."""

    def named(self, version: int) -> str:
        """Return the name of a version. vLLM keeps a prefix cache for each name, so no version sees another's."""
        return f"{self.name}-v{version}"


class VLLMServerPolicy:
    """A token policy over one or more vLLM servers with the same model.

    With adapters, it learns: each turn is sampled by the latest version (`updated`).

    Args:
        codec: Converts between messages and token ids.
        urls: The URLs of the replicas (`http://host:port`), at least one.
        model: The model's name at the servers.
        end_ids: Tokens that end a turn.
        context: Longest conversation, in tokens.
        name: Its name in reports.
        sampling: How to draw tokens.
        patience_s: How long a turn waits for a replica to come up again, in seconds.
        adapters: Where the versions of the weights are; by default the servers get them in another way, or never.

    Raises:
        MissingExtra: aiohttp is not installed.
    """

    def __init__(
        self,
        codec: Codec,
        urls: Sequence[str],
        *,
        model: str,
        end_ids: Sequence[int],
        context: int,
        name: str = "vllm",
        sampling: Sampling | None = None,
        patience_s: float = 120.0,
        adapters: Adapters | None = None,
    ):
        require("aiohttp", "endpoint")
        self.name, self.codec, self.context = name, codec, context
        self.sampling = sampling or Sampling()
        self._model, self._end_ids, self._patience_s = model, list(end_ids), patience_s
        self.version, self.adapters = 0, adapters
        self._fleet = ReplicaFleet(list(urls))
        self._client: aiohttp.ClientSession | None = None
        self._in_flight = 0
        self._has_answered = False

    async def generate(
        self, ids: Sequence[int], max_new_tokens: int, session: str, *, timeout_s: float | None = None
    ) -> Generation:
        """Sample one turn after `ids`, at the replica of `session`.

        Answers are not streamed, so a turn over its time limit has no tokens. Waiting for a replica does not count.

        Raises:
            InfrastructureError: No replica answered in time, an answer was invalid, or this turn was rejected although
                others were answered.
            UsageError: The servers reject all such requests.
        """
        async with self._connected() as client:
            return await self._turn(
                client, session, lambda: self._request(ids, max_new_tokens, session), timeout_s=timeout_s
            )

    def release(self, session: str) -> None:
        """Forget the replica of a conversation."""
        self._fleet.release(session)

    def updated(self, version: int) -> None:
        """Sample the next turns with another version of the weights; turns that are being sampled keep theirs."""
        self.version = version

    def _request(self, ids: Sequence[int], max_new_tokens: int, session: str) -> _Request:
        # Each turn has its own seed, so its tokens depend only on the conversation, not on the rest of the batch.
        key = f"{self.sampling.seed}/{self.version}/{session}/{len(ids)}".encode()
        body = {
            "model": self._model if self.adapters is None else self.adapters.named(self.version),
            "prompt": list(ids),
            "max_tokens": max_new_tokens,
            "temperature": self.sampling.temperature,
            # Overrides the server's defaults, which come from the model's generation settings.
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "stop_token_ids": self._end_ids,
            "logprobs": 0,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            "seed": int.from_bytes(hashlib.sha256(key).digest()[:4], "big"),
        }
        return _Request(body, self.version)

    @asynccontextmanager
    async def _connected(self) -> AsyncGenerator[aiohttp.ClientSession]:
        """Hold connections open while requests are in flight, so that none outlives its event loop."""
        import aiohttp

        if self._client is None:
            no_limits = aiohttp.ClientTimeout(total=None, sock_connect=10)
            self._client = aiohttp.ClientSession(
                headers=headers(), timeout=no_limits, connector=aiohttp.TCPConnector(limit=0), trust_env=True
            )
        self._in_flight += 1
        try:
            yield self._client
        finally:
            self._in_flight -= 1
            if not self._in_flight and (client := self._client) is not None:
                self._client = None
                await client.close()

    async def _turn(
        self, client: aiohttp.ClientSession, session: str, make: Callable[[], _Request], *, timeout_s: float | None
    ) -> Generation:
        """Ask the session's replica for a turn, or another if it is down; wait while all are down.

        `make` returns the request; each try may be of another version.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._patience_s
        last = "no replica is up"
        while loop.time() < deadline:
            await self._look_again(client)
            replica = self._fleet.replica_of(session)
            if replica is None:
                await asyncio.sleep(_LOOK_EVERY_S)
                continue
            request = make()
            try:
                generation = await _asked(client, replica, request, timeout_s)
                self._has_answered = True
                return generation
            except _Busy as busy:
                last = f"{replica.url} is busy"
                await asyncio.sleep(busy.seconds)
            except _Lost as lost:
                last = f"{replica.url}: {lost}"
                self._fleet.failed(replica, loop.time())
            except _Refused as refused:
                if refused.status == _NO_SUCH_MODEL and self.adapters is not None:
                    last = str(refused)
                    await self._offer(client, replica, request.version)
                    continue
                if refused.status != _NO_SUCH_MODEL or not self._has_answered:
                    raise self._refusal(refused) from refused
                last = str(refused)  # it restarted with another model
                self._fleet.failed(replica, loop.time())
        raise InfrastructureError(f"no vLLM server answered within {self._patience_s:g} s; the last reason was: {last}")

    async def _offer(self, client: aiohttp.ClientSession, replica: Replica, version: int) -> None:
        """Make a replica load the adapter of a version, unless there is a newer one. It may have been restarted."""
        adapters = self.adapters
        if adapters is None or version != self.version:
            return
        name = adapters.named(version)
        body = {"lora_name": name, "lora_path": str(adapters.folder / name)}
        if not await _has_loaded(client, replica, body):
            await asyncio.sleep(_LOOK_EVERY_S)

    def _refusal(self, refused: _Refused) -> Exception:
        """Return the error: for the episode if other turns were answered, otherwise for the run."""
        is_about_turn = self._has_answered and refused.status in _ABOUT_CONTENT
        return (InfrastructureError if is_about_turn else UsageError)(str(refused))

    async def _look_again(self, client: aiohttp.ClientSession) -> None:
        """Check whether replicas are up again."""
        now = asyncio.get_running_loop().time()
        for replica in self._fleet.due(now):
            self._fleet.failed(replica, now)  # so that no other turn checks at the same time
            if await _is_healthy(client, replica):
                self._fleet.answered(replica)


async def _has_loaded(client: aiohttp.ClientSession, replica: Replica, body: dict[str, Any]) -> bool:
    """Whether a replica has loaded an adapter, now or before."""
    import aiohttp

    try:
        async with client.post(f"{replica.url}/v1/load_lora_adapter", json=body) as response:
            return response.status == 200 or "already been loaded" in await response.text()
    except (aiohttp.ClientError, TimeoutError):
        return False


async def _is_healthy(client: aiohttp.ClientSession, replica: Replica) -> bool:
    import aiohttp

    try:
        limit = aiohttp.ClientTimeout(total=_HEALTH_TIMEOUT_S)
        async with client.get(f"{replica.url}/health", timeout=limit) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False


async def _asked(
    client: aiohttp.ClientSession, replica: Replica, request: _Request, timeout_s: float | None
) -> Generation:
    """Return a replica's turn, without tokens if it takes longer than `timeout_s` seconds."""
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            answer = await _watched(client, replica, request.body)
    except TimeoutError:
        if limit.expired():
            return Generation([], [], "time", request.version)
        raise
    return _generation(answer, request.version)


async def _watched(client: aiohttp.ClientSession, replica: Replica, body: dict[str, Any]) -> Any:
    """Post a request, and give up once the server is unhealthy: a stopping server may keep connections open forever.

    Two failed checks in a row are required, since a busy server may miss one.
    """
    turn = asyncio.ensure_future(_post(client, replica, body))
    try:
        misses = 0
        while not turn.done():
            await asyncio.wait([turn], timeout=_WATCH_EVERY_S)
            misses = 0 if turn.done() or await _is_healthy(client, replica) else misses + 1
            if misses == 2 and not turn.done():
                raise _Lost("it stopped during a turn")
        return turn.result()
    finally:
        turn.cancel()


async def _post(client: aiohttp.ClientSession, replica: Replica, body: dict[str, Any]) -> Any:
    import aiohttp

    try:
        async with client.post(f"{replica.url}/v1/completions", json=body) as response:
            status, retry_after, content = response.status, response.headers.get("Retry-After"), await response.read()
    except (aiohttp.ClientError, TimeoutError) as error:
        raise _Lost(f"{type(error).__name__}: {error}") from error
    if status != 200:
        raise _refusal(status, retry_after, f"{replica.url}: {content[:500].decode(errors='replace')}")
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _Lost(f"its answer is not JSON: {error}") from error
    if _finish_of(answer) in _GIVEN_UP:
        raise _Lost("it aborted the turn")
    return answer


def _finish_of(answer: Any) -> Any:
    """Return the finish reason of an answer; `None` if it is unreadable."""
    try:
        return answer["choices"][0]["finish_reason"]
    except (LookupError, TypeError):
        return None


def _refusal(status: int, retry_after: str | None, text: str) -> Exception:
    if status == 429:
        seconds = float(retry_after) if retry_after is not None and retry_after.isdecimal() else 1.0
        return _Busy(min(seconds, 60.0))
    if status >= 500:
        return _Lost(f"status {status}: {text}")
    return _Refused(status, text)


def _generation(answer: Any, version: int) -> Generation:
    """Return the turn in a server's answer, sampled by a version. Raises `InfrastructureError` without one."""
    try:
        choice = answer["choices"][0]
        ids, logprobs = choice["token_ids"], choice["logprobs"]["token_logprobs"]
        if not isinstance(ids, list) or len(ids) != len(logprobs):
            raise ValueError(f"{len(ids or [])} token ids, {len(logprobs)} log-probabilities")
        finish: Literal["stop", "length"] = "stop" if _finish_of(answer) == "stop" else "length"
        return Generation([int(i) for i in ids], [float(p) for p in logprobs], finish, version)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InfrastructureError(
            f"a vLLM server's answer has no tokens with log-probabilities ({type(error).__name__}: {error}); it must "
            "be vLLM 0.22 or newer"
        ) from error
