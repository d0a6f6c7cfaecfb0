"""Searches around a policy: choices, records, costs and invalid combinations."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agentgym.base.errors import InfrastructureError, UsageError
from agentgym.core.endings import Reason
from agentgym.core.env import Env
from agentgym.core.messages import Message, ToolCall, text_of
from agentgym.core.policy import FunctionPolicy, Generation, ScriptedPolicy
from agentgym.core.replay import replay
from agentgym.core.rewards import OUTCOME
from agentgym.core.task import Task
from agentgym.core.toolset import tool
from agentgym.core.trajectory import Trajectory
from agentgym.envs.errand import ErrandEnv
from agentgym.envs.guess import GuessEnv
from agentgym.eval.evaluation import evaluate
from agentgym.rollout import EnvFactory, Job, Limits, RolloutEngine
from agentgym.rollout.lookahead import Beam, BestOfN, Candidate, Majority, Mcts, Oracle, Search, Signals
from agentgym.rollout.lookahead.values import Asking
from tests.noisy import NoisyPolicy
from tests.rollout_cases import END, Factory, Letters

STRATEGIES = [BestOfN(3), Beam(2, 2), Beam(2, 2, "rollout"), Mcts(3, 2), Mcts(3, 2, evaluate="value")]


GUESS = Factory(kwargs={"max_turns": 7})
ERRAND = Factory("agentgym/errand-v0", build=ErrandEnv)


def tasks(env: type[Env], count: int) -> list[Task]:
    return [env.default_tasks().get("test", index) for index in range(count)]


def success(factory: EnvFactory, search: Search | None, count: int = 60) -> float:
    kind = GuessEnv if factory is GUESS else ErrandEnv
    policy = NoisyPolicy("guess" if factory is GUESS else "errand", 0.5)
    return evaluate(factory, policy, tasks(kind, count), search=search).success or 0.0


def search_episodes(
    search: Search, policy: Any = None, factory: EnvFactory = GUESS, count: int = 3, **limits: Any
) -> list[Trajectory]:
    kind = ErrandEnv if factory.env_id == ERRAND.env_id else GuessEnv
    jobs = [Job(task, seed) for seed, task in enumerate(tasks(kind, count))]
    played = policy or NoisyPolicy("guess", 0.5)
    with RolloutEngine(factory, played, Limits(**limits), method=search) as engine:
        return sorted(engine.trajectories(jobs), key=lambda trajectory: trajectory.task_id)


def without_times(trajectory: Trajectory) -> dict[str, Any]:
    data = replace(trajectory, seconds=0.0).to_dict()
    data["search"] = {k: v for k, v in trajectory.search.items() if k not in ("seconds", "replayed_turns")}
    return data


def actions(trajectory: Trajectory) -> list[Any]:
    return [turn.action for turn in trajectory.turns]


# Choices.


def test_success_rises_with_n_and_never_exceeds_the_oracle():
    signals = [success(GUESS, search) for search in (None, *(Search(BestOfN(n), Signals()) for n in (2, 8)))]
    votes = [success(ERRAND, Search(BestOfN(n), Majority())) for n in (1, 4, 16)]
    oracle = [success(ERRAND, Search(BestOfN(n), Oracle())) for n in (1, 2, 8)]
    assert signals[0] + 0.05 < signals[1] < signals[2] - 0.2
    assert votes[0] + 0.05 < votes[1] < votes[2] - 0.1
    assert oracle[0] < oracle[1] < oracle[2]
    assert all(success(ERRAND, Search(BestOfN(8), value)) <= oracle[2] for value in (Majority(), Signals()))


@pytest.mark.parametrize("strategy", [Beam(1, 6), Mcts(8, 3)], ids=str)
def test_searching_turn_by_turn_solves_more_than_playing_once(strategy: Any):
    assert success(ERRAND, Search(strategy)) > success(ERRAND, None) + 0.1


class Flipped(ErrandEnv):
    """The errand with the opposite outcome, which the policy cannot see."""

    def reward(self, channel: str, value: float) -> None:
        super().reward(channel, 1.0 - value if channel == OUTCOME else value)


EACH = pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)


@EACH
def test_the_choice_depends_on_the_hidden_outcome_only_with_the_oracle(strategy: Any):
    policy, flipped = NoisyPolicy("errand", 0.5), Factory("agentgym/errand-v0", build=Flipped)
    for value in (Majority(), Majority(by="result"), Signals(), Oracle()):
        search = Search(BestOfN(3) if value == Oracle() else strategy, value)
        plain, other = (list(map(actions, search_episodes(search, policy, factory))) for factory in (ERRAND, flipped))
        assert (plain != other) == (value == Oracle()), value.name


def test_a_value_function_sees_rewards_only_by_name():
    candidates_seen: list[Candidate] = []

    class Curious(Majority):
        async def scores(self, candidates: Sequence[Candidate], asking: Asking) -> list[float | None]:
            candidates_seen.extend(candidates)
            return await super().scores(candidates, asking)

    search_episodes(Search(Mcts(2, 2), Curious()), count=1)
    assert candidates_seen
    assert all(not candidate.rewards for candidate in candidates_seen)
    search_episodes(Search(BestOfN(2), Signals(frozenset({"format"}))), count=1)
    with pytest.raises(UsageError, match="unknown reward channel 'wit'"):
        search_episodes(Search(BestOfN(2), Signals(frozenset({"wit"}))), count=1)


# Records.


@EACH
def test_the_chosen_line_replays_and_is_the_same_however_many_run_at_once(strategy: Any):
    alone, together = (search_episodes(Search(strategy, Signals()), max_in_flight=count) for count in (1, 64))
    assert list(map(without_times, alone)) == list(map(without_times, together))
    for trajectory in alone:
        assert replay(trajectory, GUESS()) is None
        assert trajectory.reason in (Reason.SOLVED, Reason.MAX_TURNS)
        assert trajectory.policy == f"noisy guess 0.5 with {strategy.name},value=signals"
        assert Trajectory.from_dict(trajectory.to_dict()) == trajectory


def test_the_cost_of_the_whole_search_is_recorded():
    [trajectory] = search_episodes(Search(BestOfN(4), Signals()), count=1)
    lines = [search_episodes(Search(BestOfN(n), Oracle()), count=1)[0].search["turns"] for n in (3, 4)]
    assert trajectory.search["episodes"] == 4
    assert trajectory.search["turns"] == trajectory.search["policy_calls"] == lines[1] > lines[0]
    assert trajectory.search["seconds"] >= trajectory.seconds > 0
    assert "replayed_turns" not in trajectory.search
    assert "oracle" not in trajectory.search


# Token policies.


class Wanderer:
    """A token policy that guesses at random, seeded by the session; records its open sessions."""

    name, context = "wanderer", 100_000

    def __init__(self) -> None:
        self.codec, self.open, self.asked = Letters(), set[str](), 0

    async def generate(
        self, ids: Sequence[int], max_new_tokens: int, session: str, *, timeout_s: float | None = None
    ) -> Generation:
        self.open.add(session)
        self.asked += 1
        number = random.Random(f"{session}/{len(ids)}").randint(1, 1000)
        text = f'<tool_call>\n{{"name": "guess", "arguments": {{"number": {number}}}}}\n</tool_call>'
        ids_said = [*(ord(letter) + 2 for letter in text), END]
        ids_said = ids_said[:max_new_tokens]
        return Generation(ids_said, [-1.0] * len(ids_said), "stop")

    def release(self, session: str) -> None:
        self.open.discard(session)


@EACH
def test_the_tokens_of_the_chosen_line_are_its_own(strategy: Any):
    policy = Wanderer()
    for trajectory in search_episodes(Search(strategy), policy):
        tokens = trajectory.tokens
        assert tokens is not None
        for turn in trajectory.model_turns:
            assert turn.span is not None
            assert policy.codec.decode(tokens.completion_ids[slice(*turn.span)]) == turn.action
        assert tokens.sampled == sum(turn.span[1] - turn.span[0] for turn in trajectory.model_turns if turn.span)
        assert trajectory.search["sampled_tokens"] >= tokens.sampled
        assert trajectory.search["observed_tokens"] >= len(tokens) - tokens.sampled
    assert not policy.open


def test_a_line_ends_where_its_tokens_end():
    trajectories = search_episodes(Search(Beam(2, 2)), Wanderer(), count=2, max_tokens=150)
    assert {trajectory.reason for trajectory in trajectories} == {Reason.TOKEN_BUDGET}
    assert all(trajectory.turns[-1].action is None for trajectory in trajectories)


# Limits and failures.


def test_the_time_limit_of_an_episode_is_that_of_its_search():
    class Slow(GuessEnv):
        @tool
        async def guess(self, number: int) -> str:
            """Guess.

            Args:
                number: Your guess.
            """
            await asyncio.sleep(0.02)
            return "No."

    for strategy in STRATEGIES:
        factory = Factory(build=Slow, kwargs={"max_turns": 10_000})
        [trajectory] = search_episodes(Search(strategy), factory=factory, count=1, episode_timeout_s=0.2)
        assert trajectory.reason is Reason.TIME


class Breaking(GuessEnv):
    """Fails at every guess."""

    @tool
    def guess(self, number: int) -> str:
        """Guess.

        Args:
            number: Your guess.
        """
        raise InfrastructureError("the dice fell off the table")


def test_a_failing_search_is_retried_and_recorded_as_failed():
    [failed] = search_episodes(Search(Beam(2, 2)), factory=Factory(build=Breaking), count=1, retries=1)
    assert (failed.failed, failed.component, failed.success) == (True, "step", False)
    assert "fell off the table" in str(failed.error)


@EACH
def test_the_environments_of_a_search_are_bounded_and_closed(strategy: Any):
    opened: list[int] = []
    counts: list[int] = []

    class Tracked(GuessEnv):
        def __init__(self, **kwargs: Any):
            super().__init__(**kwargs)
            opened.append(id(self))
            counts.append(len(opened))

        def release(self) -> None:
            if id(self) in opened:
                opened.remove(id(self))

    search_episodes(Search(strategy), factory=Factory(build=Tracked, kwargs={"max_turns": 7}), max_in_flight=3)
    assert max(counts) <= 4  # including the probe that reads `max_concurrent`
    assert not opened


# Refusals.


class Live(GuessEnv):
    unrepeatable = "its numbers come from a live feed"


def test_an_environment_that_cannot_be_repeated_plays_only_whole_episodes():
    for strategy in (Beam(), Mcts()):
        with pytest.raises(UsageError, match="its numbers come from a live feed"):
            search_episodes(Search(strategy), factory=Factory(build=Live))
    assert not any(t.failed for t in search_episodes(Search(BestOfN(2)), factory=Factory(build=Live)))


def test_a_policy_that_cannot_branch_is_refused_but_plays_whole_episodes():
    with pytest.raises(UsageError, match="cannot continue from the middle of an episode"):
        search_episodes(Search(Beam()), ScriptedPolicy())
    assert all(t.search["episodes"] == 2 for t in search_episodes(Search(BestOfN(2)), ScriptedPolicy()))


def test_a_chat_policy_continues_from_any_turn():
    conversations: list[list[str]] = []

    def ask(messages: list[Message]) -> Any:
        conversations.append([text_of(message)[:20] for message in messages])
        return {
            "role": "assistant",
            "content": "",
            "tool_calls": [ToolCall("guess", {"number": len(conversations)}).to_dict()],
        }

    [trajectory] = search_episodes(
        Search(Beam(1, 2)), FunctionPolicy("f", ask), count=1, factory=Factory(kwargs={"max_turns": 2})
    )
    assert [len(texts) for texts in conversations] == [2, 2, 4, 4]
    assert replay(trajectory, Factory(kwargs={"max_turns": 2})()) is None
