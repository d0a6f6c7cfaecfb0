"""What searching at evaluation brings, and what it costs: none, best-of-n, beam search and MCTS, by four values.

    python -m benchmarks.search_at_evaluation              # two noisy policies; a minute on two cores
    python -m benchmarks.search_at_evaluation --tiny       # the tiny model on SQL too, which learns that first

Success is next to the turns that the whole search played. Only rows with the value `oracle` see the reward; they bound
what any value could choose.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.evaluation import evaluate
from agentgym.lookahead import Beam, BestOfN, Majority, Mcts, Oracle, Search, Signals
from agentgym.policy import Policy
from agentgym.policy_loader import load_policy
from agentgym.registry import make
from agentgym.rollout import EnvFactory
from agentgym.summary import Summary
from agentgym.task import Task
from benchmarks._report import Claim, write
from tests.noisy import NoisyPolicy

NOISE, TASKS = 0.5, 200
VALUES = (Majority(), Majority(by="result"), Signals(), Oracle())
STRATEGIES = (BestOfN(4), BestOfN(8), BestOfN(16), Beam(1, 8), Beam(4, 3), Mcts(8, 3), Mcts(16, 3))


@dataclass(frozen=True)
class Subject:
    """A policy on tasks."""

    factory: EnvFactory
    policy: Policy
    tasks: Sequence[Task]

    def played(self, search: Search | None) -> Summary:
        """Return the results with a search, or without one."""
        return evaluate(self.factory, self.policy, self.tasks, search=search)


def subject(env: str, policy: Policy | None, count: int, **arguments: Any) -> Subject:
    """Return the first tasks of an environment's test split; without a policy, a noisy one plays."""
    factory = EnvFactory(f"agentgym/{env}-v0", arguments)
    made = make(factory.env_id, **arguments)
    try:
        tasks = [made.tasks.get("test", index) for index in range(count)]
    finally:
        made.close()
    return Subject(factory, policy or NoisyPolicy(env, NOISE), tasks)


def tiny(count: int) -> Subject:
    """Return the tiny model on the SQL tasks of its recipe."""
    from agentgym.trainers.policies import training_arguments

    arguments = training_arguments("tiny", "sql")
    kwargs = {name: value for name, value in arguments.items() if name != "dialect"}
    policy = load_policy(
        "tiny",
        env_id="agentgym/sql-v0",
        env_kwargs=kwargs,
        dialect=arguments.get("dialect"),
        temperature=1.0,
        seed=0,
        concurrency=64,
        max_new_tokens=512,
    )
    return subject("sql", policy, count, **arguments)


def searches() -> Iterator[Search | None]:
    """Yield no search, then each strategy with each value."""
    yield None
    yield from (Search(strategy, value) for strategy in STRATEGIES for value in VALUES)


def row(of: Subject, search: Search | None) -> dict[str, Any]:
    """Return the success and the cost of one search."""
    found = of.played(search)
    assert found.success is not None
    assert not found.failed
    whole = found.search or {"turns": found.turns, "sampled_tokens": found.sampled_tokens or 0.0}
    shown = {
        "env": of.factory.env_id,
        "policy": of.policy.name,
        "strategy": "none" if search is None else search.strategy.name,
        "value": "" if search is None else search.value.name,
        "success": round(found.success, 4),
        "turns": round(found.turns or 0.0, 2),
        "searched_turns": round(whole["turns"] or 0.0, 2),
        "replayed_turns": round(whole.get("replayed_turns") or 0.0, 2),
        "sampled_tokens": round(whole.get("sampled_tokens") or 0.0, 1),
    }
    print(f"{shown['env']:20} {shown['strategy']:58} {shown['value']:20} ", end="")
    print(f"{100 * shown['success']:5.1f} %  {shown['searched_turns']:7.1f} turns", flush=True)
    return shown


def claims(rows: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """Return what has to hold: honest values gain much, and the oracle is not exceeded."""
    share = {(one["env"], one["strategy"], one["value"]): one["success"] for one in rows}
    found: list[Claim] = []
    for env, value in (("agentgym/guess-v0", "signals"), ("agentgym/errand-v0", "majority")):
        gain = share[env, "best-of-n:n=16", value] - share[env, "none", ""]
        found.append(Claim(f"{env}: success gained by best-of-n:16 with {value}", round(gain, 4), ">=", 0.2))
    above = max(
        share[env, "best-of-n:n=16", value.name] - share[env, "best-of-n:n=16", "oracle"]
        for env in {one["env"] for one in rows}
        for value in VALUES
    )
    found.append(Claim("most that a value exceeds the oracle by, on the same episodes", round(above, 4), "<=", 0.0))
    return found


def main() -> None:
    """Play all searches and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="play the tiny model on SQL too")
    subjects = [subject("guess", None, TASKS, max_turns=7), subject("errand", None, TASKS)]
    if parser.parse_args().tiny:
        subjects.append(tiny(40))
    rows = [row(one, search) for one in subjects for search in searches()]
    write("search_at_evaluation", rows, claims(rows))


if __name__ == "__main__":
    main()
