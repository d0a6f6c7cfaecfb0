"""Reward channels and reward schemes of the code environment."""

from __future__ import annotations

from agentgym.rewards import OUTCOME, Channel, Gate, Scheme

MAX_REFUSED = 3
"""Submissions of an episode that may fail to load; the last of them counts as a wrong answer."""

CHANNELS = {
    OUTCOME: Channel("1 if the submitted answer is right"),
    "format": Channel("1 if the action parsed and its arguments were valid", per_turn=True, cheap=True),
    "ran": Channel("1 if the call, and the code in it, ran without an error", per_turn=True, cheap=True),
    "visible": Channel("share of the examples that the submitted answer gets right"),
    "hidden": Channel("share of the hidden tests that the submitted answer passes"),
    "progress": Channel("share of the hidden tests passed, less those that a constant or a returned argument passes"),
    "worked": Channel("1 when code first printed something without an error, or passed an example"),
    "submitted": Channel("1 if an answer was submitted", cheap=True),
    "used_code": Channel("1 if code was run before the answer", cheap=True),
    "refused": Channel("1 for a submission that does not load", per_turn=True, per_call=True),
    "tool_cost": Channel("1 for a call before the answer", per_turn=True, per_call=True),
}

GATED = Scheme(
    weights={
        OUTCOME: 1.0,
        "format": 0.05,
        "ran": 0.05,
        "worked": 0.05,
        "visible": 0.1,
        "progress": 0.2,
        "refused": -0.05,
    },
    gates=(
        Gate(on="submitted", at_least=1.0, opens=("worked", "visible", "progress")),
        # The examples are in the prompt: copying them earns nothing by itself.
        Gate(on="progress", at_least=0.0, strict=True, opens=("visible",)),
        # If calls cost something in failed episodes, giving up would pay.
        Gate(on=OUTCOME, at_least=1.0, opens=("format", "ran", "refused")),
    ),
    averaged=frozenset({"format", "ran"}),
    capped={"refused": MAX_REFUSED - 1.0},
)
"""Partial work is paid once an answer is submitted; readable calls that run are paid only if the task is solved."""
