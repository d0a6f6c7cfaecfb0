"""Writes trajectories as a log of Inspect, for `view_vs_inspect`, run by the Python that has `inspect-ai`.

Does not import agentgym. The log has messages and scores but no events, which logs of real runs hold besides: Inspect's
viewer has less to read than it would have of the same episodes played by Inspect.

    python benchmarks/_inspect_log.py trajectories.jsonl DIR/episodes.eval
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from inspect_ai.log import (  # pyright: ignore[reportMissingImports]
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import (  # pyright: ignore[reportMissingImports]
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ModelOutput,
)
from inspect_ai.scorer import Score  # pyright: ignore[reportMissingImports]
from inspect_ai.tool import ToolCall  # pyright: ignore[reportMissingImports]


def message(data: dict[str, Any] | str) -> Any:
    if isinstance(data, str):
        return ChatMessageAssistant(content=data, model="scripted")
    role, text = data["role"], data["content"]
    if role == "system":
        return ChatMessageSystem(content=text)
    if role == "user":
        return ChatMessageUser(content=text)
    if role == "tool":
        return ChatMessageTool(content=text, tool_call_id=data.get("tool_call_id"), function=data.get("name"))
    calls = [
        ToolCall(id=call["id"], function=call["function"]["name"], arguments=arguments(call["function"]["arguments"]))
        for call in data.get("tool_calls") or ()
    ]
    return ChatMessageAssistant(content=text or "", tool_calls=calls or None, model="scripted")


def arguments(given: Any) -> Any:
    return json.loads(given) if isinstance(given, str) else given


def conversation(trajectory: dict[str, Any]) -> list[Any]:
    found = list(trajectory["opening"])
    for turn in trajectory["turns"]:
        found += [turn["action"]] if turn["action"] is not None else []
        found += turn["observation"]
    return [message(one) for one in found]


def sample(trajectory: dict[str, Any]) -> EvalSample:
    outcome = sum(turn["rewards"].get("outcome", 0.0) for turn in trajectory["turns"])
    messages = conversation(trajectory)
    return EvalSample(
        id=trajectory["task_id"],
        epoch=trajectory["attempt"] + 1,
        input=trajectory["opening"][-1]["content"],
        target="",
        messages=messages,
        output=ModelOutput.from_content("scripted", str(messages[-1].text)),
        scores={"outcome": Score(value="C" if outcome >= 1 else "I", answer="")},
        total_time=trajectory["seconds"],
    )


def main() -> None:
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        samples = [sample(json.loads(line)) for line in file]
    now = datetime.now(UTC).isoformat()
    right = sum(one.scores["outcome"].value == "C" for one in samples if one.scores) / len(samples)
    log = EvalLog(
        status="success",
        eval=EvalSpec(
            created=now,
            task="episodes",
            dataset=EvalDataset(name="episodes", samples=len(samples), sample_ids=[one.id for one in samples]),
            model="scripted",
            config=EvalConfig(),
        ),
        results=EvalResults(
            total_samples=len(samples),
            completed_samples=len(samples),
            scores=[
                EvalScore(name="outcome", scorer="outcome", metrics={"mean": EvalMetric(name="mean", value=right)})
            ],
        ),
        stats=EvalStats(started_at=now, completed_at=now),
        samples=samples,
    )
    write_eval_log(log, target, format="eval")
    print(metadata.version("inspect-ai"))


if __name__ == "__main__":
    main()
