"""Describe the channels and schemes of an environment in Markdown."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym.cards.markdown import code, codes, number, table
from agentgym.env import Env
from agentgym.rewards import Channel, Gate, Scheme

_ALWAYS = ("outcome", "d_ra")
_SCOPES = {"trajectory": "over the episode", "turn": "in the turn", "past": "in an earlier turn"}


def channels_table(env: Env) -> str:
    """Return a table of the channels: name, range, when they are earned, meaning."""
    rows = [(code(name), _range(channel), _when(channel), _meaning(channel)) for name, channel in env.channels.items()]
    return table(("channel", "range", "earned", "meaning"), rows)


def _range(channel: Channel) -> str:
    return f"{number(channel.low)} to {number(channel.high)}"


def _when(channel: Channel) -> str:
    return "each call" if channel.per_call else "each turn" if channel.per_turn else "once"


def _meaning(channel: Channel) -> str:
    return channel.description + ("; *cheap*: any legal action can earn it" if channel.cheap else "")


def named_schemes(env: Env) -> Mapping[str, Scheme]:
    """Return the environment's own schemes, the default first."""
    return {"default": env.scheme, **{n: s for n, s in type(env).schemes.items() if n not in (*_ALWAYS, "default")}}


def schemes_text(env: Env) -> str:
    """Return the weights of the channels in each scheme, and the gates."""
    schemes = named_schemes(env)
    rows = [
        (code(name), *(_weight(scheme, name) for scheme in schemes.values()))
        for name in env.channels
        if any(name in scheme.weights for scheme in schemes.values())
    ]
    gates = [text for name, scheme in schemes.items() if (text := _gates(name, scheme))]
    always = "Besides, `outcome` pays the outcome alone, and `d_ra` is the default without its gates."
    return "\n\n".join([table(("weight of", *map(code, schemes)), rows), *gates, always])


def _weight(scheme: Scheme, name: str) -> str:
    if name not in scheme.weights:
        return ""
    cap = scheme.capped.get(name)
    note = " × mean" if name in scheme.averaged else "" if cap is None else f", sum up to {number(cap)}"
    return number(scheme.weights[name], 3) + note


def _gates(name: str, scheme: Scheme) -> str:
    lines = [f"- {_gate(gate)}" for gate in scheme.gates]
    return "\n".join([f"Gates of {code(name)}, in this order:", "", *lines]) if lines else ""


def _gate(gate: Gate) -> str:
    sign = ">" if gate.strict else "≥"
    verb = "counts" if len(gate.opens) == 1 else "count"
    return f"{codes(gate.opens)} {verb} only if {code(gate.on)} {sign} {number(gate.at_least)} {_SCOPES[gate.scope]}"
