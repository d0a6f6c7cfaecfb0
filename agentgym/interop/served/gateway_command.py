"""`agentgym gateway`: serve a model to agents and record what they do. The gateway is imported when it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentgym.base.command_options import Port, Seed, Settings
from agentgym.base.components import READ_TOKEN
from agentgym.base.loading import load_named

_SERVER = "agentgym.interop.served.gateway.server"


def gateway(
    policy: Annotated[
        str,
        typer.Option(help="The model: tiny (with --env), a checkpoint's folder or name, a GGUF file, or vllm:MODEL."),
    ],
    env: Annotated[str | None, typer.Option(help="The environment that the tiny model was trained for.")] = None,
    settings: Settings = None,
    dialect: Annotated[str | None, typer.Option(help="The format of tool calls; template: the model's own.")] = None,
    max_calls: Annotated[int, typer.Option(min=1, help="Maximum calls per turn, as stated in the model's prompt.")] = 1,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Maximum sampled tokens per turn.")] = 512,
    temperature: Annotated[float, typer.Option(min=0.0, help="Sampling temperature; agents cannot override it.")] = 1.0,
    context: Annotated[int | None, typer.Option(min=1, help="Longest conversation, in tokens.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Conversations to sample at the same time.")] = 64,
    seed: Seed = 0,
    port: Port = 0,
    token_file: Annotated[
        Path | None,
        typer.Option(help="The file with the owner's key; created with a new one if missing.", dir_okay=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Append the trajectories of ended sessions to this file.", dir_okay=False)
    ] = None,
) -> None:
    """Serve a model to agents as an OpenAI-compatible endpoint, and record their tokens as trajectories.

    Serves on this machine only, until Ctrl-C. Owners open and reward sessions; see docs/interop/gateway.md.
    """
    arguments = load_named(f"{_SERVER}:GatewayArguments", "a class")(
        policy,
        env,
        settings or (),
        dialect,
        max_calls,
        max_new_tokens,
        temperature,
        context,
        concurrency,
        seed,
        port,
        out,
    )
    token = load_named(READ_TOKEN, "a function")(token_file)
    load_named(f"{_SERVER}:run_gateway", "a function")(arguments, token, shows_token=token_file is None)
