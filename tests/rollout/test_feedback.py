"""Feedback by a simulated user: its comments, which must not reveal the gold, and their record."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.core.messages import Message, ToolCall, assistant, text_of, user
from agentgym.core.policy import FunctionPolicy, ScriptedPolicy, SilentPolicy
from agentgym.core.replay import replay
from agentgym.core.task import Task
from agentgym.core.trajectory import Trajectory
from agentgym.envs.errand import ErrandEnv
from agentgym.envs.guess import GuessEnv
from agentgym.eval.results.rescore import rescore
from agentgym.rollout import EnvFactory, Job, Limits, RolloutEngine
from agentgym.rollout.feedback import (
    FeedbackContext,
    ModelUser,
    Remark,
    ScriptedUser,
    WithFeedback,
    read_feedback,
    reveals,
)
from tests.refusals import differing, not_refused
from tests.rollout.test_lookahead import Wanderer

NAMES = {"name": "Ada", "house": ["Mill"]}
QUERY = {"sql": "SELECT name FROM t ORDER BY price DESCENDING LIMIT 3"}
ERRAND = Task("t", "test", "In town: Ada, Ben.", gold={"name": "Ada", "house": "Mill"})


def play(feedback: Any, policy: Any, env: str = "guess", **kwargs: Any) -> Trajectory:
    kind = GuessEnv if env == "guess" else ErrandEnv
    factory = EnvFactory(f"agentgym/{env}-v0", kwargs)
    with RolloutEngine(factory, policy, Limits(retries=0), workers="inline", method=feedback) as engine:
        [trajectory] = engine.trajectories([Job(kind.default_tasks().get("test", 0), 0)])
    return trajectory


def guessing(*numbers: int, conversation: list[Message] | None = None) -> FunctionPolicy:
    """Return a policy that guesses these numbers in turn, then gives up."""
    remaining = list(numbers)

    def ask(messages: list[Message]) -> Any:
        if conversation is not None:
            conversation[:] = messages
        return assistant("", [ToolCall("guess", {"number": remaining.pop(0)})]) if remaining else None

    return FunctionPolicy("guessing", ask)


class Saying:
    """A simulator that repeats one comment."""

    name, sees_gold = "saying", True

    def __init__(self, text: str):
        self.text = text

    async def remark(self, scene: FeedbackContext, key: str) -> Remark:
        return Remark(self.text, {"completion_tokens": 2.0})


# The script.


def scripted(*turns: tuple[str, str], most: int = 20) -> str:
    """The remark after the last of these turns, each an action and its result."""
    scene = FeedbackContext(ERRAND, [user("Go.")], [(action, [user(result)]) for action, result in turns], most)
    return asyncio.run(ScriptedUser().remark(scene, "key")).text


def test_the_script_reacts_to_errors_repetitions_and_the_last_turns():
    assert scripted(("a", "fine")) == ""
    assert scripted(("a", "fine"), ("b", "The text says Error: no")) == ""
    assert "Read the error" in scripted(("a", "Error: no such table"))
    assert "failed again" in scripted(("a", "Error: x"), ("b", "Error: y"))
    assert "the same in turn 1 and it failed again" in scripted(("a", "Error: x"), ("a ", "Error: x"))
    assert "Use what you learned" in scripted(("a", "fine"), ("b", "fine"), ("a", "fine"))
    assert scripted(("a", "fine"), most=4) == ""
    assert scripted(("a", "fine"), most=3) == "You have 2 turns left: give your best answer now."
    assert scripted(("a", "fine"), most=2) == "You have 1 turn left: give your best answer now."
    assert not ScriptedUser.sees_gold


# Gold.

REVEALING: list[tuple[tuple[str, dict[str, Any], str], bool]] = [
    (("Think about where Ada lives.", NAMES, ""), True),
    (("Think about where Ada lives.", NAMES, "fetch Ada"), False),
    (("Try Mill House.", NAMES, "fetch Ada"), True),
    (("Look closer at the names.", NAMES, ""), False),
    (("It is 42.", {"number": 42}, ""), True),
    (("It is 421.", {"number": 42}, ""), False),
    (("Choose B.", {"choice": "B"}, ""), True),
    (("This would be a choice.", {"choice": "B"}, ""), False),
    (("Order by price descending limit 3", QUERY, ""), True),
    (("Order the rows by their price.", QUERY, ""), False),
    (("True", {"shipped": True, "none": None, "empty": ""}, ""), False),
]


def test_gold_values_may_be_mentioned_only_after_the_episode_shows_them():
    assert differing(lambda row: reveals(*row), REVEALING) == []


def test_feedback_that_reveals_the_gold_is_withheld_and_counted():
    gold = GuessEnv.default_tasks().get("test", 0).gold["number"]
    wrong = 1 if gold != 1 else 2
    trajectory = play(WithFeedback(Saying(f"It is {gold}.")), guessing(wrong, wrong), max_turns=5)
    assert trajectory.counts["feedback_withheld"] == 2
    assert trajectory.counts["feedback"] == 0
    assert f"It is {gold}." not in str(trajectory.messages)


# Records.


def test_feedback_follows_the_observation_and_reaches_the_policy():
    conversation: list[Message] = []
    trajectory = play(WithFeedback(Saying("Think again.")), guessing(1, 1, conversation=conversation), max_turns=5)
    assert [text_of(message) for message in conversation if message.get("role") == "user"][1:] == ["Think again."] * 2
    assert [turn.feedback for turn in trajectory.turns] == [1, 1, 0]
    assert [len(turn.answered) for turn in trajectory.turns] == [1, 1, 0]
    assert trajectory.counts["feedback"] == 2
    assert trajectory.usage["feedback_completion_tokens"] == 4
    assert trajectory.policy == "guessing with feedback: saying,when=turn"


def test_an_episode_with_feedback_replays_and_is_scored_again_without_the_user():
    trajectory = play(WithFeedback(Saying("Think again.")), guessing(1, 2, 3), max_turns=5)
    again = Trajectory.from_dict(trajectory.to_dict())
    assert again == trajectory
    assert replay(again) is None
    assert rescore(again, GuessEnv(max_turns=5)).diverged is None
    again.turns[0].observation[0]["content"] = "It is bigger."
    assert str(replay(again)).startswith("turn 1: observation")


def test_comments_can_be_for_mistakes_alone_and_never_follow_the_end():
    trajectory = play(WithFeedback(Saying("Think again."), "mistake"), guessing(1, 2000, 2), max_turns=5)
    assert [turn.feedback for turn in trajectory.model_turns] == [0, 1, 0]
    solved = play(WithFeedback(Saying("Think again.")), ScriptedPolicy())
    assert (solved.success, solved.turns[-1].feedback) == (True, 0)


def test_token_policies_read_feedback_as_tokens_without_loss():
    policy = Wanderer()
    trajectory = play(WithFeedback(Saying("Think again.")), policy, max_turns=3)
    tokens = trajectory.tokens
    assert tokens is not None
    observed = [id for id, mask in zip(tokens.completion_ids, tokens.loss_mask, strict=True) if not mask]
    assert policy.codec.decode(observed).count("Think again.") == 2


def test_a_failing_user_fails_the_episode():
    class Broken(Saying):
        async def remark(self, scene: FeedbackContext, key: str) -> Remark:
            raise RuntimeError("no line")

    trajectory = play(WithFeedback(Broken("")), guessing(1))
    assert (trajectory.failed, trajectory.component) == (True, "feedback")


def test_a_model_is_shown_the_gold_and_the_conversation():
    prompts: list[str] = []

    def ask(messages: list[Message]) -> str:
        prompts.append(text_of(messages[-1]))
        return "Mind the last result."

    user_model = ModelUser(FunctionPolicy("model", ask))
    trajectory = play(WithFeedback(user_model), guessing(1), max_turns=5)
    gold = GuessEnv.default_tasks().get("test", 0).gold["number"]
    assert f'"number": {gold}' in prompts[0]
    assert "It is higher." in prompts[0] or "It is lower." in prompts[0]
    assert text_of(trajectory.turns[0].observation[-1]) == "Mind the last result."


# The command line.


def test_feedback_is_read_with_its_settings_or_refused():
    settings = read_feedback("openai:m@http://localhost:1/v1,when=mistake")
    assert (settings.model, settings.when) == ("openai:m@http://localhost:1/v1", "mistake")
    assert read_feedback(settings.name) == settings
    silent = [read_feedback(text).loaded(lambda name: SilentPolicy()) for text in ("scripted", "scripted,when=turn")]
    assert silent[0] == silent[1]
    rows = [("", "--feedback takes scripted"), ("scripted,when=never", "one of turn, mistake")]
    rows.append(("mine", "cannot give feedback"))
    assert not_refused(lambda text: read_feedback(text).loaded(lambda name: ScriptedPolicy()), rows) == []  # type: ignore[arg-type, return-value]


def run_command(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(words), env={"COLUMNS": "200"})
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def test_eval_with_and_without_feedback_is_compared_and_not_mixed(tmp_path: Path):
    plain, advised = str(tmp_path / "plain.jsonl"), str(tmp_path / "advised.jsonl")
    of = ["eval", "--env", "errand", "--policy", "random", "-n", "4"]
    run_command(*of, "--out", plain)
    assert "comments an episode" in run_command(*of, "--feedback", "scripted", "--out", advised)
    assert "random with feedback: scripted,when=turn" in run_command("compare", plain, advised)
    assert "4 of 4 trajectories came out as recorded" in run_command("replay", advised)
    assert "another policy" in run_command(*of, "--out", advised, code=2)
    assert "cannot be used together" in run_command(*of, "--feedback", "scripted", "--search", "beam", code=2)
