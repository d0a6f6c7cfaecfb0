"""The options of `agentgym eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Environments and tasks.
EnvName = Annotated[str | None, typer.Option(help="An id such as 'sql', or module:Class.")]
SuiteNames = Annotated[
    list[str] | None,
    typer.Option(help="A suite (agentgym tasks list) or its YAML file, instead of --env; may be repeated."),
]
Tasks = Annotated[str | None, typer.Option(help="A split, or a manifest (JSONL); default: test or the nearest split.")]
Attempts = Annotated[int | None, typer.Option("--attempts", "-k", min=1, help="Trajectories per task; default: 1.")]
Limit = Annotated[
    int | None,
    typer.Option("--limit", "-n", min=1, help="Maximum number of tasks; default: all, or 100 of an endless split."),
]
Data = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=PATH", help="Your own data for a suite that needs it; may be repeated."),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at a broken task or file entry instead of skipping it.")]

# Policies.
Policies = Annotated[
    list[str] | None,
    typer.Option(
        help="scripted, random, silent, human (you), tiny, smollm2, a checkpoint's folder or name, a GGUF file, "
        "vllm:MODEL (sampled with vLLM), vllm:MODEL@URL (by a vLLM server), openai:MODEL@URL (behind a chat endpoint), "
        "or module:factory; may be repeated, to compare several; default: scripted.",
    ),
]
Dialect = Annotated[str | None, typer.Option(help="The format of tool calls; template: the model's own.")]
Temperature = Annotated[float | None, typer.Option(min=0.0, help="Sampling temperature; 0 is greedy; default: 1.")]
MaxNewTokens = Annotated[int | None, typer.Option(min=1, help="Maximum sampled tokens per turn; default: 512.")]
EndpointSettings = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE|FILE",
        help="A setting of openai:MODEL@URL, or a YAML file of settings (docs/endpoint.md); may be repeated.",
    ),
]
Search = Annotated[
    str | None,
    typer.Option(
        metavar="SEARCH",
        help="Look ahead and play the best line found: best-of-n:8, beam:width=4,branch=3, mcts:iterations=16; "
        "with value=majority, signals, judge or oracle (docs/lookahead.md).",
    ),
]
Feedback = Annotated[
    str | None,
    typer.Option(
        metavar="USER",
        help="Let a simulated user comment on each turn: scripted, or openai:MODEL@URL, which sees the gold "
        "but may not reveal it; with ,when=mistake only after mistakes (docs/feedback.md).",
    ),
]

# Execution.
Concurrency = Annotated[int, typer.Option(min=1, help="Number of concurrent episodes.")]
Timeouts = Annotated[
    list[str] | None,
    typer.Option("--timeout", metavar="NAME=SECONDS", help="A time limit: generation, reset, step, tool, episode."),
]
Workers = Annotated[str, typer.Option(help="Where environments run: inline, threads, processes or ray.")]
RayCluster = Annotated[
    str | None,
    typer.Option(metavar="auto|HOST:PORT", help="The Ray cluster; default: a new one on this machine only."),
]

# Results.
Out = Annotated[
    Path | None,
    typer.Option(help="Save here (JSONL; a folder with --suite or several policies); run again to resume."),
]
FailUnder = Annotated[
    float | None,
    typer.Option(min=0.0, max=1.0, metavar="SHARE", help="Exit with 1 if a smaller share is solved."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
Rescore = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Score the trajectories of a file again, without a policy, with the current graders; --set overrides "
        "recorded arguments. Grades are appended to a second file in the same folder.",
        exists=True,
        dir_okay=False,
    ),
]
