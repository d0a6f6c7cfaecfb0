"""Trajectories for the viewer: groups with gates and tokens, and a hostile one."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import Any

from agentgym.core.endings import Reason
from agentgym.core.messages import Message, ToolCall, assistant, system, tool_result, user, with_pictures
from agentgym.core.timing import Span, TurnTimes
from agentgym.core.trajectory import Tokens, Trajectory, Turn, write_jsonl
from agentgym.eval.results.annotations import Annotation, Annotations

SQL_RESULT = "name VARCHAR|total BIGINT\nAda\\|Ben|12\nNULL|7\n2 rows, <1 s"
HITS = "[1] Port Veld: a town by the sea\n[2] Veld: a river"
DIFF = "diff --git a/f.py b/f.py\n--- a/f.py\n+++ b/f.py\n@@ -1 +1 @@\n-x = 1\n+x = 2"
SCRIPT = "<script>window.hacked = 1</script>"
HOSTILE = [
    SCRIPT,
    "<img src=x onerror='window.hacked = 2'>",
    "<svg onload='window.hacked = 3'>",
    '<a href="javascript:window.hacked=4">here</a>',
    "</script><script>window.hacked = 5</script>",
    "<!-- <script>",
    "\u2028window.hacked = 6\u2029",
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "\x1b]8;;https://evil.test\x1b\\click\x1b]8;;\x1b\\ \x9b2J \x9d0;title\x9c",
    "nul \x00 back \x08\x08 bell \x07 return \rover",
    "marks \u061c \u200e \u200f \ufeff [link=https://evil.test]markup[/link] [red]",
    "safe \u202egnitsil\u202c \u2066isolated\u2069",
    "\ud800 alone",
    "{{constructor.constructor('window.hacked = 7')()}} ${window.hacked = 8}",
]


def png(side: int = 4) -> bytes:
    """A small picture."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\x20\x60\xa0" * side for _ in range(side))
    head = part(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")


def turn(number: int, words: str, result: str, rewards: dict[str, float], reward: float, tool: str = "chat") -> Turn:
    call = ToolCall(tool, {"sql": words} if tool == "query" else {"text": words}, f"call_{number}")
    span = (6 * number, 6 * number + 4)
    return Turn(assistant("", [call]), [tool_result(call, result)], rewards, reward, span, times=times(number, tool))


def times(number: int, tool: str) -> TurnTimes:
    """A turn of 0.8 s, three quarters of it generation, with two calls at the same time."""
    calls = (Span(tool, 0.0, 0.15), Span(tool, 0.05, 0.1))
    return TurnTimes(0.1 + number * 0.8, 0.6, 0.2, 0.1, calls, Span("grade", 0.16, 0.03) if number else None)


def tokens(turns: int) -> Tokens:
    tokens = Tokens([1, 2, 3])
    for number in range(turns):
        tokens.append_sampled([10, 11, 12, 13], [-0.5, -0.1, -2.0, -0.01], number)
        tokens.append_observed([20, 21])
    return tokens


def channels(**values: float) -> dict[str, float]:
    return {"outcome": 0.0, "fetched": 0.0, "chatted": 0.0, "delivered": 0.0, **values}


def errand(task: int = 0, attempt: int = 0, *, solved: bool = False, **values: Any) -> Trajectory:
    """An errand: all attempts share the first turn and differ in the second."""
    first = turn(0, "hello", SQL_RESULT, channels(chatted=1.0), 0.0)
    paid = channels(outcome=1.0, fetched=1.0, delivered=1.0) if solved else channels(delivered=1.0)
    second = turn(1, f"SELECT {attempt} FROM houses", HITS, paid, 2.0 if solved else 0.0, "query")
    defaults: dict[str, Any] = {
        "id": f"errand/test/{task}#{attempt}",
        "env_id": "agentgym/errand-v0",
        "task_id": f"errand/test/{task}",
        "task_hash": "h",
        "seed": 3,
        "policy": "tiny",
        "opening": [system("Run errands."), user(f"Take Ada's parcel, number {task}.")],
        "attempt": attempt,
        "split": "test",
        "difficulty": 1 + task % 3,
        "tags": ("L1", f"t{task % 2}"),
        "turns": [first, second],
        "reason": Reason.SOLVED if solved else Reason.ANSWERED,
        "counts": {"calls": 2, "tool_errors": attempt, "format_errors": 0},
        "tokens": tokens(2),
        "seconds": 1.5 + attempt,
    }
    return Trajectory(**defaults | values)


DEEP = '{"a":' * 50_000 + "1" + "}" * 50_000
"""Arguments nested so deeply that recursive functions fail."""


def nested(depth: int) -> Any:
    value: Any = "the end"
    for _ in range(depth):
        value = [value]
    return value


def hostile() -> Trajectory:
    """A trajectory whose model, tools and environment try to run code wherever text is displayed."""
    everything = "\n".join(HOSTILE)
    deep = ToolCall("deep", {"at": nested(200)}, "deep")
    call = ToolCall(SCRIPT, {SCRIPT: everything, "sql": f"SELECT '{everything}'"}, SCRIPT)
    result: Message = {**tool_result(call, everything), "name": HOSTILE[1]}
    pictured = with_pictures(user(everything), [png()])
    pictured["content"] += [  # type: ignore[operator]
        {"type": "image", "base64": "x' onerror='window.hacked = 9"},
        {"type": SCRIPT, "base64": base64.b64encode(b"<svg onload='window.hacked=10'>").decode()},
    ]
    turns = [
        Turn(assistant(everything, [call]), [result], channels(**{SCRIPT: 1.0}), 0.0, (0, 4)),
        Turn(
            f"<think>{everything}</think><tool_call>{everything}</tool_call>\n@{everything}",
            [pictured],
            channels(),
            0.0,
        ),
        Turn("```python\n" + everything + "\n```", [user("x" * 5_000_000)], channels(), 0.0),
        Turn(assistant("", [deep]), [tool_result(deep, "[" * 3000 + "]" * 3000)], channels(), 0.0),
        Turn(
            {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": 7, "arguments": DEEP}}, "x"]},
            [user("NaN Infinity {not json")],
            channels(),
            0.0,
        ),
    ]
    for turn in turns:
        turn.times = TurnTimes(0.0, 1.0, 1.0, 0.5, (Span(SCRIPT, 0.0, 0.5), Span(everything, -1.0, 9e9)), None)
    return errand(
        id=f"{SCRIPT}#0",
        task_id=SCRIPT,
        policy=HOSTILE[3],
        tags=tuple(HOSTILE[:4]),
        turns=turns,
        opening=[system(everything), user(everything)],
        details={SCRIPT: everything, "deep": nested(200)},
        error=everything,
        split=SCRIPT,
        tools=[{"name": SCRIPT}],
        env_kwargs={SCRIPT: everything},
    )


def sample_run() -> list[Trajectory]:
    """Four tasks with three attempts each; the first attempt solves every second task."""
    return [errand(task, attempt, solved=attempt == 0 and task % 2 == 0) for task in range(4) for attempt in range(3)]


def write_run(folder: Path) -> Path:
    """Write a run: trajectories of four steps with the trainer's data, and metrics."""
    file = folder / "trajectories.jsonl"
    played = [
        errand(0, attempt, solved=attempt < step, training_step=step) for step in range(4) for attempt in range(4)
    ]
    write_jsonl(file, played)
    ends = [{"success/low": step / 8, "success/high": (step + 4) / 8} for step in range(4)]
    lines = [{"step": step + 1, "success": step / 4, "entropy": 1.0 - step / 4, **ends[step]} for step in range(4)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    Annotations(file).add(
        note
        for t in played
        for note in (
            Annotation(t.id, t.training_step, "credit", {"mode": "gated", "advantages": [0.25, -0.5]}),
            Annotation(t.id, t.training_step, "trainer_logprobs", {"values": [-0.4] * 12}),
            Annotation(t.id, t.training_step, "grade", {"why": "house 7 is right"}),
        )
    )
    return file
