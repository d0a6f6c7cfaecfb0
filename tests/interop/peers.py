"""Helpers for the tests of adapters: marks for tests that need other packages, and scripted models."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from typing import Any
from uuid import uuid4

import pytest

from agentgym.core.dialects import get_dialect
from agentgym.core.messages import ToolCall, calls_of, text_of
from agentgym.core.task import Task
from agentgym.core.toolset import Toolset
from agentgym.core.trajectory import Trajectory
from agentgym.rollout import EnvFactory, RolloutEngine
from agentgym.rollout.jobs import Job
from tests.doc_blocks import DOCS, blocks_of
from tests.endpoints import Fake, Said, call, calling, completion
from tests.interop.guarantees import DONE, Moves, Seen, said_next


def needs(*modules: str) -> list[pytest.MarkDecorator]:
    """Return the marks of tests that need modules of other projects, which only `.ci/peers` installs."""
    missing = [name for name in modules if find_spec(name) is None]
    reason = f"{', '.join(missing)}: not in this environment (see .ci/peers)"
    return [pytest.mark.peers, pytest.mark.skipif(bool(missing), reason=reason)]


@contextmanager
def scripted_model(episodes: Sequence[Moves], seed: int) -> Iterator[str]:
    """Serve a chat model that plays episodes of `ProbeEnv` (`guarantees.said_next`); provides the base URL."""
    with Fake(lambda request, number: as_completion(said_next(request["messages"], episodes, seed))).serving() as url:
        yield url


def as_completion(move: ToolCall | None) -> Said:
    """Return a move as a chat endpoint's answer."""
    return text_completion(DONE) if move is None else _calling(move)


def played(env: str, policy: Any, tasks: Sequence[tuple[Task, int]], **arguments: Any) -> list[Trajectory]:
    """Play tasks with seeds in our own engine, with calls in the format of chat endpoints."""
    factory = EnvFactory(env, {"dialect": "native", **arguments})
    jobs = [Job(task, seed, 0) for task, seed in tasks]
    with RolloutEngine(factory, policy) as engine:
        done = {trajectory.task_id: trajectory for trajectory in engine.trajectories(jobs)}
    return [done[task.id] for task, _ in tasks]


@contextmanager
def replaying_model(trajectories: Sequence[Trajectory]) -> Iterator[str]:
    """Serve a chat model that repeats trajectories; provides the base URL."""
    by_opening = {text_of(trajectory.opening[-1]): trajectory for trajectory in trajectories}

    def answer(request: Mapping[str, Any], number: int) -> Said:
        return said_again(request["messages"], by_opening)

    with Fake(answer).serving() as url:
        yield url


def said_again(messages: Sequence[Mapping[str, Any]], by_opening: Mapping[str, Trajectory]) -> Said:
    """Return the next turn of the trajectory that began like a conversation."""
    opening = next(text_of(m) for m in messages if m["role"] == "user")
    turn = sum(m["role"] == "assistant" for m in messages)
    action = by_opening[opening].turns[turn].action
    if isinstance(action, str):
        return text_completion(action)
    assert action is not None
    return _calling(*calls_of(action), content=text_of(action))


def _calling(*moves: ToolCall, content: str | None = None) -> Said:
    calls = (call(move.name, move.arguments, f"call_{uuid4().hex}") for move in moves)
    return _strict(calling(*calls, content=content))


def text_completion(text: str) -> Said:
    """Return text as a chat endpoint's answer."""
    return _strict(completion(text))


def _strict(turn: Said) -> Said:
    """Return an answer with all fields that typed clients require."""
    turn.body |= {"created": 0, "model": "scripted"}
    return turn


def together(one: Callable[[int], Awaitable[Seen]], tasks: int, attempts: int) -> list[list[Seen]]:
    """Play each task `attempts` times on one event loop, all at the same time; return what each attempt showed."""

    async def everything() -> list[Seen]:
        return await asyncio.gather(*(one(index) for index in range(tasks) for _ in range(attempts)))

    return by_task(asyncio.run(everything()), attempts)


def by_task(results: Sequence[Seen], attempts: int) -> list[list[Seen]]:
    """Group what was seen by task; attempts at a task follow each other."""
    return [list(results[start : start + attempts]) for start in range(0, len(results), attempts)]


def conversation(text: str) -> list[Any]:
    """The messages that a prompt of Qwen 2.5 shows."""
    parts = [part.partition("\n") for part in text.split("<|im_start|>")[1:]]
    return [{"role": role, "content": content} for role, _, content in parts if content]


def in_hermes(move: ToolCall | None) -> str:
    """Return a move as the text of a model that speaks the dialect `hermes`."""
    return DONE if move is None else get_dialect("hermes").render("", [move], Toolset(()))


def saying(*calls: ToolCall) -> Callable[[Any], str]:
    """Return a model that makes calls, one a turn."""
    remaining = list(calls)
    return lambda _: in_hermes(remaining.pop(0) if remaining else None)


def seen_in(messages: Sequence[Mapping[str, Any]]) -> Seen:
    """Return the texts and pictures in messages of a chat endpoint."""
    blocks = [block for m in messages if isinstance(m.get("content"), list) for block in m["content"]]
    urls = [block["image_url"]["url"] for block in blocks if block.get("type") == "image_url"]
    return Seen(list(map(text_of, messages)), [base64.b64decode(url.partition(",")[2]) for url in urls])


def run_page(name: str, **names: Any) -> dict[str, Any]:
    """Run the Python of a page of `docs/interop` with `names`, and return these; comment lines state the output."""
    for block in blocks_of(DOCS / "interop" / name):
        if block.language == "python" and block.why_not is None:
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(compile(block.text, name, "exec"), names)
            expected = [line.removeprefix("# ") for line in block.text.splitlines() if line.startswith("# ")]
            assert [line for line in expected if line not in printed.getvalue().splitlines()] == []
    return names
