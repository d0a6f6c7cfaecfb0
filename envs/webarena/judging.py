"""The verdict of WebArena-Verified: its evaluators on the response of an agent and the requests of its browser."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from agentgym.errors import BrokenTask, InfrastructureError
from agentgym.tasks.webarena.package import parsed

_STATIC = "css|js|png|jpe?g|gif|svg|woff2?|ttf|ico|webp"
EVALUATED = re.compile(rf"^(?![^?#]*\.(?:{_STATIC})(?:[?#]|$))")
"""Matches addresses of requests that evaluators look at: all except those of static files."""
_ERROR = "error"


@dataclass(frozen=True)
class WebArenaVerdict:
    """The package's verdict on an episode."""

    score: float
    """1 if every evaluator accepts, else 0."""
    evaluators: tuple[tuple[str, str], ...]
    """Name and status of each: `success`, `failure` or `error`."""


def judge(
    entry: Mapping[str, Any], sites: Mapping[str, str], response: Mapping[str, Any] | None, log: Mapping[str, Any]
) -> WebArenaVerdict:
    """Return the verdict of the package's own evaluators.

    If an evaluator raises an error, the score is 0, as in the package. If it also does for a run without any action, it
    cannot judge the task at all.

    Args:
        entry: The task's entry in the file.
        sites: Addresses of its sites by name.
        response: The agent's response; `None` without one.
        log: A HAR document of the requests of the episode, from the first on.

    Raises:
        BrokenTask: The package cannot judge the task.
        InfrastructureError: No request was recorded.
    """
    requests = log["log"]["entries"]
    if not requests:
        raise InfrastructureError("the browser recorded no request, not even that of the first page")
    result = _evaluated(entry, sites, response, requests)
    if result.status == _ERROR:
        untouched = _evaluated(entry, sites, None, requests[:1])
        if untouched.status == _ERROR:
            raise BrokenTask(f"webarena-verified cannot judge task {entry['task_id']}: {_why(untouched)}")
    statuses = tuple((evaluator.evaluator_name, str(evaluator.status)) for evaluator in result.evaluators_results)
    return WebArenaVerdict(float(result.score), statuses)


def _evaluated(
    entry: Mapping[str, Any],
    sites: Mapping[str, str],
    response: Mapping[str, Any] | None,
    requests: Sequence[Mapping[str, Any]],
) -> Any:
    evaluators = import_module("webarena_verified.api.internal.evaluator")
    context = import_module("webarena_verified.types.eval").TaskEvalContext
    trace = import_module("webarena_verified.types.tracing").NetworkTrace
    settings = import_module("webarena_verified.types.config").WebArenaVerifiedConfig
    config = settings(environments={site: {"urls": [address]} for site, address in sites.items()})
    # Its reader only looks tasks up by number, in files that hold all 812.
    evaluator = evaluators.WebArenaVerifiedEvaluator(config=config, reader=None)
    return evaluator.evaluate_task(
        context=context(
            task=parsed(entry),
            agent_response_raw=None if response is None else dict(response),
            network_trace=trace.from_content(list(requests)),
            config=config,
        )
    )


def _why(result: Any) -> str:
    messages = (result.error_msg, *(evaluator.error_msg for evaluator in result.evaluators_results))
    return next((message for message in messages if message), "no error message")
